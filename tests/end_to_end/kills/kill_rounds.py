"""A server that is killed again and again, and what must hold of it afterwards."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from service.cli.server_process import ServerProcess
from tests.end_to_end.kills.kill_clients import Gate, KillClient
from tests.end_to_end.kills.kill_stage import KillStage
from tests.end_to_end.served_plan import everything, violations
from tests.end_to_end.server_process import Client, workers_of
from tests.patience import eventually

_CLIENTS: Final = 4

#: What is killed, and how often in a hundred: one worker, the worker that leads the dispatch, all
#: workers, the master alone (its workers are to follow), and everything at this instant; and the
#: leader is stopped until another leads.
_TARGETS: Final = {"worker": 77, "leader": 10, "hang": 3, "workers": 4, "master": 3, "all": 3}

#: The same of the database, where that is a server of its own.
_DATABASE: Final = {"database": 3}

#: Most answers between two kills, and the longest wait for them, s; longest time that a worker is
#: stopped before it continues.
_ANSWERS: Final = 10
_PAUSE_S: Final = 3.0
_STOPPED_S: Final = 0.4

#: Longest time that a leader is stopped, and that a database is unavailable, s.
_HANG_S: Final = 4.0
_AWAY_S: Final = 1.0

#: Answers under keys that are requested again at each check, by each client.
_KEYS_AGAIN: Final = 10


@dataclass(slots=True)
class Killed:
    """What was done and found.

    Attributes
    ----------
    kills, checks
        By target; how often everything was held against what clients know.
    faults
        What was lost, doubled or shown falsely.
    calls, lost, learned
        Of all clients.
    """

    kills: Counter[str] = field(default_factory=Counter)
    checks: int = 0
    faults: list[str] = field(default_factory=list)
    calls: int = 0
    lost: int = 0
    learned: Counter[str] = field(default_factory=Counter)


class KillRound:
    """One database, its clients, and who kills its servers."""

    def __init__(self, stage: KillStage, port: int, seed: int) -> None:
        self.outcome = Killed()
        self._stage = stage
        self._opened = stage.opened
        self._port = port
        self._random = random.Random(seed)
        self._gate = Gate()
        self._clients = [KillClient(port, number, seed, self._gate) for number in range(_CLIENTS)]

    def run(self, targets: Iterable[str], until: float = float("inf")) -> Killed:
        """Kill one after the other until a reading of the steady clock; return what was found."""
        with ExitStack() as servers:
            server = servers.enter_context(self._opened(self._port))
            for client in self._clients:
                client.start()
            for target in targets:
                self._kill(server, target)
                if target in ("all", "master"):
                    servers.close()
                    server = servers.enter_context(self._opened(self._port))
                if target in ("all", "master", "database"):
                    self._check(server)
                if self.outcome.faults or time.monotonic() > until:
                    break
            self._check(server)
            self._end()
            assert server.stop()
        return self.outcome

    def _end(self) -> None:
        for client in self._clients:
            client.ended.set()
        self._gate.reopen()
        for client in self._clients:
            client.join()
            self.outcome.calls += client.calls
            self.outcome.lost += client.lost
            self.outcome.learned += client.learned

    def _kill(self, server: ServerProcess, target: str) -> None:
        """Kill something in the middle of a call."""
        self._wait_for_answers()
        workers = eventually(lambda: workers_of(server.process.pid), bool)
        if self._random.random() < 0.15:
            pause(self._random.choice(workers), self._random.random() * _STOPPED_S)
        self._gate.wait_for_a_call(1.0)
        time.sleep(self._random.random() * 0.02)
        self.outcome.kills[target] += 1
        if target == "database":
            self._kill_database(server)
        elif target in ("leader", "hang"):
            self._kill_leader(workers, for_good=target == "leader")
        elif target == "all":
            server.kill()
        elif target == "master":
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait()
        else:
            for pid in workers if target == "workers" else [self._random.choice(workers)]:
                send(pid, signal.SIGKILL)

    def _kill_database(self, server: ServerProcess) -> None:
        """Let the database die and come back; servers continue by themselves."""
        assert self._stage.postgres is not None
        self._stage.postgres.kill()
        time.sleep(self._random.random() * _AWAY_S)
        self._stage.postgres.start()
        eventually(lambda: Client(server.port).call("GET", "/readyz")[0], (200).__eq__)

    def _kill_leader(self, workers: Sequence[int], *, for_good: bool) -> None:
        """Kill the worker that leads, or stop it until another does; any where no one leads."""
        leader = self._stage.leader()
        pid = leader if leader in workers else self._random.choice(workers)
        assert pid is not None
        if for_good:
            send(pid, signal.SIGKILL)
            return
        send(pid, signal.SIGSTOP)
        self._stage.wait_for_another(pid, _HANG_S)
        send(pid, signal.SIGCONT)

    def _wait_for_answers(self) -> None:
        """Let some calls be answered, so that each kill comes in the middle of work."""
        wanted = self._answered() + self._random.randint(1, _ANSWERS)
        until = time.monotonic() + _PAUSE_S
        while self._answered() < wanted and time.monotonic() < until:
            time.sleep(0.005)

    def _answered(self) -> int:
        return sum(client.calls - client.lost for client in self._clients)

    def _check(self, server: ServerProcess) -> None:
        """Hold everything that a server shows against what its clients know."""
        self._gate.close()
        for client in self._clients:
            client.resolve()
            client.keys_again(_KEYS_AGAIN)
        shown: dict[str, Any] = {}
        for entry in everything(Client(server.port)):
            if entry["state"] != "refused":
                self._note(entry["id"] not in shown, f"{entry['id']} is there twice")
                shown[entry["id"]] = entry
        for client in self._clients:
            for id_ in client.known:
                client.hold(id_, shown.pop(id_, None))
            self.outcome.faults += client.faults
            client.faults.clear()
        self._note(not shown, f"nobody asked for {sorted(shown)}")
        broken = violations(Client(server.port))
        self._note(not broken, f"the Plan is not valid: {broken}")
        self.outcome.checks += 1
        self._gate.reopen()

    def _note(self, holds: bool, fault: str) -> None:
        if not holds:
            self.outcome.faults.append(fault)


def random_targets(seed: int, count: int, *, database: bool) -> list[str]:
    """Return what to kill; `database`: that too."""
    targets = _TARGETS | (_DATABASE if database else {})
    return random.Random(seed).choices(tuple(targets), tuple(targets.values()), k=count)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def pause(pid: int, seconds: float) -> None:
    """Let a process do not move."""
    send(pid, signal.SIGSTOP)
    time.sleep(seconds)
    send(pid, signal.SIGCONT)
