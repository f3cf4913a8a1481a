"""Mixed calls, outages and kills: the Plan stays valid, and no call is held for long."""

from __future__ import annotations

import http.client
import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from service.cli.server_process import ServerProcess, free_port
from tests.databases import KINDS
from tests.end_to_end.kills.kill_clients import Gate
from tests.end_to_end.kills.kill_rounds import send
from tests.end_to_end.kills.kill_stage import KillStage, stage_of
from tests.end_to_end.served_plan import everything, violations
from tests.end_to_end.server_process import Client, workers_of
from tests.patience import eventually

#: Two kinds of machines, so few that outages hurt; requests of `prod` displace others.
CLUSTER: Final = """
step = "1m"
horizon = "8h"

[[machines]]
name = "plain"
count = 6
resources = { cpu = 4, memory = "16 GiB" }

[[machines]]
name = "big"
count = 3
labels = ["fast"]
resources = { cpu = 16, memory = "64 GiB", gpu = 2 }

[[queues]]
name = "batch"

[[queues]]
name = "prod"

[promises]
level = "placed"
requests_may_choose = ["pooled"]

[[policies]]
type = "displacement"
queue = "prod"
"""

SHAPES: Final = (
    "atom(<1 cpu, 1 gpu>, 1, 2, 20m, 40m)",
    "atom(<1 cpu>, 1, 4, 20m, 80m)",
    "atom(<4 cpu>, 1, 3, 20m, 60m)",
    "atom(<3 cpu>, 2, 2, 20m, 40m)",
    "atom(<8 cpu>, 1, 1, 20m, 20m)",
    "atom(<1 cpu, 6 GiB memory>, 1, 4, 20m, 40m)",
    'atom(<2 cpu>, 2, 2, 20m, 40m, spread=1, on="fast")',
    "order(atom(<2 cpu>, 1, 2, 10m, 20m), atom(<4 cpu>, 1, 1, 10m, 10m))",
    "every(1h, atom(<2 cpu>, 1, 1, 10m, 10m), times=3)",
)

#: For how many seconds the soak continues on each database; longest time that a call may be held.
SECONDS: Final = float(os.environ.get("AGENDA_SOAK_SECONDS", "1800"))
HELD_S: Final = 5.0

#: Seconds within which a Plan is repaired after a change of machines, once no one changes it.
REPAIRED_S: Final = 10.0

_KILLS: Final = {"worker": 6, "workers": 2, "master": 1, "freeze": 3}
_CLIENTS: Final = 3


@dataclass(slots=True)
class StormClient(threading.Thread):
    """Makes mixed calls, and remembers what was promised and how long each answer took."""

    port: int
    number: int
    seed: int
    gate: Gate
    faults: list[str] = field(default_factory=list)
    promised: set[str] = field(default_factory=set)
    answers: Counter[int] = field(default_factory=Counter)
    longest: dict[str, float] = field(default_factory=dict)
    lost: int = 0

    def __post_init__(self) -> None:
        threading.Thread.__init__(self, daemon=True)
        self.ended = threading.Event()
        self._random = random.Random(f"{self.seed}-{self.number}")
        self._client = Client(self.port)
        self._ids: list[str] = []
        self._outages: list[str] = []

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        """Call until told to end."""
        while not self.ended.wait(0.05 + 0.1 * self._random.random()):
            with self.gate:
                self._call_something()

    def _call_something(self) -> None:
        chosen = self._random.random()
        if chosen < 0.60:
            answer = self._call("POST", "/v1/reservations?offers=0", self._request())
            if answer is not None and answer[0] == 201:
                self.promised.add(answer[1]["id"])
                self._ids.append(answer[1]["id"])
        elif chosen < 0.72 and self._ids:
            id_ = self._ids.pop(self._random.randrange(len(self._ids)))
            self._call("DELETE", f"/v1/reservations/{id_}")
        elif chosen < 0.78 and self._ids:
            body = {"rdl": self._request()["rdl"]}
            self._call("PUT", f"/v1/reservations/{self._random.choice(self._ids)}", body)
        elif chosen < 0.84:
            self._call("GET", "/v1/reservations?limit=50")
        elif chosen < 0.93 and not self._outages:
            groups = ("plain", "big", "big")
            kinds = ("loss", "maintenance", "drain")
            outage = {
                "machines": self._random.choice(groups),
                "count": self._random.randint(1, 2),
                "end": "+3h",
                "kind": self._random.choice(kinds),
            }
            answer = self._call("POST", "/v1/cluster/outages", outage)
            if answer is not None and answer[0] == 201:
                self._outages.append(answer[1]["outage"]["id"])
        elif self._outages:
            self._call("DELETE", f"/v1/cluster/outages/{self._outages.pop()}")

    def _request(self) -> dict[str, Any]:
        start = self._random.randrange(0, 240)
        rdl = f"window({self._random.choice(SHAPES)}, +{start}m, +{start + 200}m)"
        asked: dict[str, Any] = {"rdl": rdl, "tenant": f"t{self.number}"}
        asked["queue"] = "prod" if self._random.random() < 0.2 else "batch"
        asked["priority"] = self._random.randrange(4)
        if self._random.random() < 0.3:
            asked["promise"] = "pooled"
        return asked

    def _call(self, method: str, path: str, body: object = None) -> Any:
        """Return (status, body), or None if the answer was lost."""
        headers = {"If-Match": "*"} if method == "PUT" else {}
        began = time.monotonic()
        try:
            status, answer = self._client.call(method, path, body, headers)
        except (OSError, http.client.HTTPException, ValueError):
            self._client = Client(self.port)
            self.lost += 1
            time.sleep(0.1)
            return None
        taken = time.monotonic() - began
        kind = f"{method} {path.split('?')[0].rsplit('/', method in ('DELETE', 'PUT'))[0]} {status}"
        self.longest[kind] = max(taken, self.longest.get(kind, 0.0))
        self.answers[status] += 1
        if status == 400 or (status >= 500 and status != 503):
            self.faults.append(f"{method} {path} {body}: {status} {answer}")
        return status, answer


class Storm:
    """Clients and kills on one server."""

    def __init__(self, stage: KillStage, seed: int) -> None:
        self._stage, self._port = stage, free_port()
        self._random = random.Random(seed)
        self._gate = Gate()
        self.clients = [StormClient(self._port, n, seed, self._gate) for n in range(_CLIENTS)]
        self.faults: list[str] = []
        self.kills: Counter[str] = Counter()
        self.checks = 0

    def run(self, seconds: float) -> None:
        """Kill now and then for some seconds, and check after each kill."""
        until = time.monotonic() + seconds
        with ExitStack() as servers:
            server = servers.enter_context(self._stage.opened(self._port))
            for client in self.clients:
                client.start()
            while time.monotonic() < until and not self.faults:
                time.sleep(self._random.uniform(2.0, 12.0))
                if self._kill(server):
                    servers.close()
                    server = servers.enter_context(self._stage.opened(self._port))
                time.sleep(self._random.uniform(0.0, 3.0))
                self._check(server)
            for client in self.clients:
                client.ended.set()
            self._gate.reopen()
            for client in self.clients:
                client.join()

    def _kill(self, server: ServerProcess) -> bool:
        """Kill something; return whether the server has to be opened again."""
        kills = _KILLS | ({"database": 2} if self._stage.postgres is not None else {})
        target = self._random.choices(tuple(kills), tuple(kills.values()))[0]
        workers = eventually(lambda: workers_of(server.process.pid), bool)
        self.kills[target] += 1
        if target == "database":
            assert self._stage.postgres is not None
            self._stage.postgres.kill()
            time.sleep(self._random.random())
            self._stage.postgres.start()
        elif target == "master":
            server.kill()
            return True
        elif target == "freeze":
            pid = self._random.choice(workers)
            send(pid, signal.SIGSTOP)
            time.sleep(self._random.uniform(0.2, 2.0))
            send(pid, signal.SIGCONT)
        else:
            for pid in workers if target == "workers" else [self._random.choice(workers)]:
                send(pid, signal.SIGKILL)
        return False

    def _check(self, server: ServerProcess) -> None:
        """Hold what is shown against what was promised, and the Plan against the validator."""
        self._gate.close()
        eventually(lambda: Client(server.port).call("GET", "/readyz")[0], (200).__eq__)
        began = time.monotonic()
        while (broken := violations(Client(server.port))) and time.monotonic() < began + REPAIRED_S:
            time.sleep(0.2)
        if broken:
            self.faults.append(f"after {REPAIRED_S:g} s the Plan is not valid: {broken}")
        shown = {entry["id"] for entry in everything(Client(server.port))}
        for client in self.clients:
            missing = client.promised - shown
            if missing:
                self.faults.append(f"promised and gone: {sorted(missing)}")
            self.faults += client.faults
        failure = Client(server.port).call("GET", "/readyz")[1].get("adapter")
        if failure:
            self.faults.append(f"the adapter failed: {failure}")
        self.checks += 1
        self._gate.reopen()

    def __str__(self) -> str:
        answers = sum((client.answers for client in self.clients), Counter[int]())
        lost = sum(client.lost for client in self.clients)
        return (
            f"{answers.total()} answers {dict(answers)}, {lost} lost, kills {dict(self.kills)}, "
            f"{self.checks} checks; longest calls, s: {self.longest()}"
        )

    def longest(self) -> dict[str, float]:
        """Return the longest time of each kind of call and answer, the longest first."""
        kinds: dict[str, float] = {}
        for client in self.clients:
            for kind, taken in client.longest.items():
                kinds[kind] = max(round(taken, 1), kinds.get(kind, 0.0))
        return dict(sorted(kinds.items(), key=lambda one: -one[1]))


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_storm_of_calls_outages_and_kills(tmp_path: Path, kind: str) -> None:
    """The validator finds nothing at any check, and no answer takes longer than five seconds."""
    seed = int(os.environ.get("AGENDA_SOAK_SEED") or random.SystemRandom().randrange(10**9))
    print(f"\nAGENDA_SOAK_SEED={seed}")
    with stage_of(kind, tmp_path / "storm", workers=2, described=CLUSTER) as stage:
        storm = Storm(stage, seed)
        storm.run(SECONDS)
    print(f"{kind}: {storm}", flush=True)
    assert storm.faults == []
    assert max(storm.longest().values()) <= HELD_S, str(storm)
