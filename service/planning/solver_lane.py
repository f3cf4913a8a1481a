"""Lanes for changes that take long: they are decided in other threads, and keep no change waiting.

A lane works as another server process would (Omega): it decides on a snapshot, commits by
version in its turn, and places again what no longer fits then. One solver works at a time in a
process, and calls that wait for one hold a bounded part of the process's threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from planner.agent import Limits
from service.clock import Clock
from service.commits.changes.commands import Answer, Command, QueuedChange, is_quick_agent
from service.commits.group_commit import GroupCommit
from service.config import ServiceConfig
from service.metrics import Telemetry
from service.planning.change_queue import ChangeQueue
from service.planning.group_runner import GroupRunner
from service.planning.waiting_places import WaitingPlaces
from service.problems import problem
from service.replication.replica import Replica

#: How often a solver is asked about the same request before it is answered ``conflict``.
_ROUNDS: Final = 3

#: Longest sleep of a lane without jobs.
_NAP_S: Final = 60.0

_RETRY: Final = {"Retry-After": "5"}


class ChangeLane:
    """Carries out changes in a thread of its own, as another server process would.

    Parameters
    ----------
    name
        Of its thread.
    committer
        What carries them out; no other thread calls it.
    """

    def __init__(
        self,
        name: str,
        config: ServiceConfig,
        replica: Replica,
        clock: Clock,
        committer: GroupCommit,
    ) -> None:
        self._stopping = threading.Event()
        self._queue = ChangeQueue(config.group)
        # Nobody joins a group that is being placed: it does not hold the turn to append meanwhile.
        self._runner = GroupRunner(replica, clock, committer, None)
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def start(self) -> None:
        """Begin to carry out what waits."""
        self._thread.start()

    def close(self) -> None:
        """Take no more jobs; what has begun is carried out, what has not is refused."""
        self._stopping.set()
        self._queue.close()
        if self._thread.ident is not None:
            self._thread.join()

    def put(self, job: QueuedChange) -> bool:
        """Queue a job; False when the lane is closed."""
        return self._queue.put(job)

    def _run(self, group: list[QueuedChange]) -> None:
        self._runner.run(group)

    def _serve(self) -> None:
        while (group := self._queue.next_group(_NAP_S)) is not None:
            if self._stopping.is_set():
                for job in group:
                    job.failure = problem("unavailable", "the server is stopping", headers=_RETRY)
                    job.finished.set()
            elif group:
                self._run(group)


class SolverLane(ChangeLane):
    """Carries out the commands of slow agents.

    Parameters
    ----------
    places
        What bounds the calls that wait here.
    """

    def __init__(
        self,
        config: ServiceConfig,
        replica: Replica,
        clock: Clock,
        telemetry: Telemetry,
        places: WaitingPlaces,
    ) -> None:
        self._timeout_s = config.plan_timeout_s
        self._committer = GroupCommit(config, replica, clock, telemetry, rounds=_ROUNDS)
        self._places = places
        self._solving = threading.Lock()
        super().__init__("agenda-solver", config, replica, clock, self._committer)

    def place(self) -> AbstractContextManager[None]:
        """Hold one of the places for calls that wait for a solver, as `WaitingPlaces.holding`."""
        return self._places.holding()

    @contextmanager
    def deciding(self, agent: str) -> Iterator[Limits]:
        """Give an agent its turn to decide what is not committed, and tell how long it may take.

        Raises
        ------
        ApiProblemError
            ``too_many`` where all places are taken, ``unavailable`` where it takes too long.
        """
        limits = self._committer.limits_of(agent)
        if is_quick_agent(agent):
            yield limits
        else:
            with self.place(), self._turn():
                yield limits

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Be the only one in this process for whom a solver works."""
        if not self._solving.acquire(timeout=self._timeout_s):
            raise problem("unavailable", "the solver is busy; ask again later", headers=_RETRY)
        try:
            yield
        finally:
            self._solving.release()

    def rehearse(self, command: Command) -> tuple[Answer, ...]:
        """Return what a command would be answered now; nothing is changed."""
        with self.place(), self._turn():
            return self._committer.rehearse(command)

    def _run(self, group: list[QueuedChange]) -> None:
        with self._solving:
            super()._run(group)
