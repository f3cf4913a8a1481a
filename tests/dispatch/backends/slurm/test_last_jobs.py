"""Components that were stopped just after they had done their work: they do not run again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

import pytest

from dispatch.applications.application import Application, Component
from dispatch.backends.slurm.backend import SlurmBackend
from dispatch.backends.slurm.component_jobs import ComponentOrder
from dispatch.backends.slurm.control.capabilities import Capabilities
from dispatch.backends.slurm.control.commands import JobRequest
from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.job_names import limit_comment
from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.control.slurm import Look
from dispatch.backends.slurm.job_ledger import LONGEST_WAIT_S
from dispatch.executions.assignment import Delta, Op
from dispatch.executions.events import EventKind
from dispatch.executions.execution import Execution
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool
from planner.cluster.cluster import Cluster, MachineGroup
from rdl.resources import Resources

_PARTITIONS = ("agenda", "scavenge")


class _Slurm:
    """A Slurm of two nodes, on which a test says how jobs stand; all run at once."""

    def __init__(self) -> None:
        machines = {"m-0": "n0", "m-1": "n1"}
        self.settings = SlurmSettings(machines, "agenda", "scavenge", user="u", poll_s=0.05)
        self.commands = self
        self.capabilities = Capabilities("22.05", accounting=True)
        self.now_s = 0.0
        self.jobs: dict[int, SlurmJob] = {}
        self.accounted: list[SlurmJob] = []
        self.questions = 0
        self.is_silent = False
        self.begun_s: dict[str, int] = {}

    def submit(self, job: JobRequest) -> int:
        id_ = len(self.jobs) + 1
        self.jobs[id_] = SlurmJob(
            id_, job.name, "u", job.comment, "RUNNING", "", (job.node,), started_s=1
        )
        return id_

    def cancel(self, ids: list[int]) -> None:
        for id_ in ids:
            if self.jobs[id_].state == "RUNNING":
                self.jobs[id_] = replace(self.jobs[id_], state="CANCELLED")

    def jobs_with_processes(self, ids: Collection[int]) -> dict[int, bool]:
        return dict.fromkeys(ids, True)

    def ended_jobs(self, user: str, since: str) -> list[SlurmJob]:
        self.questions += 1
        if self.is_silent:
            raise SlurmError("sacct did not answer")
        return self.accounted

    def turn(self, id_: int, state: str) -> None:
        self.jobs[id_] = replace(self.jobs[id_], state=state)

    def look(self) -> Look:
        nodes = [
            SlurmNode(name, 4, 2000, "IDLE", (), "", _PARTITIONS, begun_s=self.begun_s.get(name, 0))
            for name in ("n0", "n1")
        ]
        return Look(dict(self.jobs), {node.name: node for node in nodes})


def _order(delta: Delta) -> ComponentOrder:
    core = delta.component == "w"
    return ComponentOrder("x", "t", "true", Resources.of({"cpu": 1000}), (), core, None, cores=2)


_GANG = [Delta(Op.START, "x", "w", index, f"m-{index}") for index in (0, 1)]
_STOPS = [replace(delta, op=Op.STOP) for delta in _GANG]
_MOVED = [replace(delta, machine=f"m-{1 - delta.index}") for delta in _GANG]
_ELASTIC = Delta(Op.GROW, "x", "e", 0, "m-0")


def _started(*deltas: Delta, accounting: bool = True) -> tuple[_Slurm, SlurmBackend]:
    slurm = _Slurm()
    slurm.capabilities = Capabilities("22.05", accounting=accounting)
    backend = SlurmBackend(cast("Any", slurm), _order, steady_s=lambda: slurm.now_s)
    assert backend.apply(deltas, 0) == ()
    _look(slurm, backend)
    return slurm, backend


def _look(slurm: _Slurm, backend: SlurmBackend) -> list[tuple[EventKind, str, int]]:
    slurm.now_s += 20
    events = backend.events(round(slurm.now_s * 1000))
    return [(one.kind, one.component, one.index) for one in events]


@pytest.mark.parametrize("same_turn", [True, False])
def test_a_gang_that_had_done_its_work_when_it_was_stopped_is_done(same_turn: bool) -> None:
    """It ended between two looks: nothing is submitted, it starts and exits in the next."""
    slurm, backend = _started(*_GANG)
    for id_ in (1, 2):
        slurm.turn(id_, "COMPLETED")
    if same_turn:
        assert backend.apply([*_STOPS, *_MOVED], 5000) == ()
    else:
        assert backend.apply(_STOPS, 5000) == ()
        _look(slurm, backend)
        assert backend.apply(_MOVED, 30_000) == ()
    assert len(slurm.jobs) == 2
    told = _look(slurm, backend)
    assert [one for one in told if one[0] is EventKind.EXITED] == [
        (EventKind.EXITED, "w", 0),
        (EventKind.EXITED, "w", 1),
    ]


def test_a_gang_of_which_one_had_not_ended_begins_anew() -> None:
    """Both run again, and what the first had done is forgotten."""
    slurm, backend = _started(*_GANG)
    slurm.turn(1, "COMPLETED")
    assert backend.apply(_STOPS, 5000) == ()
    _look(slurm, backend)
    assert backend.apply(_GANG[1:], 30_000) == ()
    assert backend.apply(_GANG[:1], 31_000) == ()
    assert len(slurm.jobs) == 4


def test_one_core_that_is_moved_after_it_had_ended_is_done_while_the_other_runs() -> None:
    """The other was not stopped."""
    slurm, backend = _started(*_GANG)
    slurm.turn(1, "COMPLETED")
    assert backend.apply([_STOPS[0], _MOVED[0]], 5000) == ()
    assert len(slurm.jobs) == 2
    assert (EventKind.EXITED, "w", 0) in _look(slurm, backend)


@pytest.mark.parametrize(("state", "jobs"), [("COMPLETED", 1), ("FAILED", 2), ("CANCELLED", 2)])
def test_an_elastic_component_counts_by_itself(state: str, jobs: int) -> None:
    """Where it ended well."""
    slurm, backend = _started(_ELASTIC)
    slurm.turn(1, state)
    assert backend.apply([replace(_ELASTIC, op=Op.SHRINK)], 5000) == ()
    _look(slurm, backend)
    assert backend.apply([_ELASTIC], 30_000) == ()
    assert len(slurm.jobs) == jobs


@pytest.mark.parametrize(("state", "jobs"), [("COMPLETED", 1), ("CANCELLED", 2)])
def test_the_accounting_is_asked_while_a_node_cleans_up(state: str, jobs: int) -> None:
    """What it says is done is done, and anything else starts at once."""
    slurm, backend = _started(_ELASTIC)
    slurm.accounted = [replace(slurm.jobs[1], state=state)]
    slurm.turn(1, "COMPLETING")
    assert backend.apply([replace(_ELASTIC, op=Op.SHRINK)], 5000) == ()
    _look(slurm, backend)
    assert backend.apply([_ELASTIC], 30_000) == ()
    assert len(slurm.jobs) == jobs


def _stopped_in_doubt(*, accounting: bool = True) -> tuple[_Slurm, SlurmBackend]:
    """Return a gang that is stopped while the end of its first job is not known to anybody."""
    slurm, backend = _started(*_GANG, accounting=accounting)
    slurm.turn(1, "COMPLETING")
    slurm.turn(2, "COMPLETED")
    assert backend.apply(_STOPS, 5000) == ()
    _look(slurm, backend)
    return slurm, backend


def test_a_gang_waits_whole_until_it_is_known_how_its_last_jobs_ended() -> None:
    """slurmctld was away when one ended: it is told a little later, and nothing runs again."""
    slurm, backend = _stopped_in_doubt()
    waits = backend.apply(_MOVED, 30_000)
    assert [(one.delta, one.retry) for one in waits] == [(delta, True) for delta in _MOVED]
    slurm.turn(1, "COMPLETED")
    _look(slurm, backend)
    assert backend.apply(_MOVED, 52_000) == ()
    assert len(slurm.jobs) == 2
    ended = [one for one in _look(slurm, backend) if one[0] is EventKind.EXITED]
    assert ended == [(EventKind.EXITED, "w", 0), (EventKind.EXITED, "w", 1)]


def test_a_start_waits_for_some_seconds_and_no_longer() -> None:
    """A node that does not answer may not finish cleaning up for minutes: its work is done anew."""
    slurm, backend = _stopped_in_doubt()
    assert len(backend.apply(_MOVED, 30_000)) == 2
    slurm.now_s += LONGEST_WAIT_S - 1
    assert len(backend.apply(_MOVED, 39_000)) == 2
    slurm.now_s += 1
    assert backend.apply(_MOVED, 40_000) == ()
    assert len(slurm.jobs) == 4


def test_what_was_stopped_after_the_last_look_is_looked_at_before_it_starts_again() -> None:
    """In a later turn too: the next look may be some seconds away."""
    slurm, backend = _started(_ELASTIC)
    slurm.turn(1, "COMPLETED")
    assert backend.apply([replace(_ELASTIC, op=Op.SHRINK)], 5000) == ()
    assert backend.apply([_ELASTIC], 6000) == ()
    assert len(slurm.jobs) == 1


def test_what_slurmctld_has_forgotten_is_forgotten() -> None:
    """Jobs of executions that are over are too, though nothing starts them again."""
    slurm, backend = _started(_ELASTIC)
    slurm.turn(1, "COMPLETED")
    assert backend.apply([replace(_ELASTIC, op=Op.SHRINK)], 5000) == ()
    _look(slurm, backend)
    slurm.jobs.pop(1)
    _look(slurm, backend)
    assert backend.apply([_ELASTIC], 60_000) == ()
    assert slurm.jobs[1].is_up


def test_the_accounting_is_asked_only_for_what_is_to_be_started() -> None:
    """A node may clean up for minutes, and every question costs Slurm something."""
    slurm, backend = _stopped_in_doubt()
    for _ in range(3):
        _look(slurm, backend)
    assert slurm.questions == 1  # of the leader that begins
    backend.apply(_MOVED, 90_000)
    assert slurm.questions == 2


def test_without_an_accounting_nothing_waits() -> None:
    """That a job was cancelled is known only when its node has cleaned up."""
    slurm, backend = _stopped_in_doubt(accounting=False)
    assert backend.apply(_MOVED, 30_000) == ()
    assert len(slurm.jobs) == 4


def _led_anew(slurm: _Slurm, *, late: bool = False) -> tuple[SlurmBackend, Execution]:
    """Return a new leader of one core that runs in Slurm, as it was taken over.

    With `late` it has looked before that.
    """
    group = MachineGroup("m", 2, Resources.of({"cpu": 4000}))
    table = ExecutionTable(MachinePool(Cluster(1000, 3_600_000, (group,))))
    one = Component("w", 1, True, Resources.of({"cpu": 1000}), "run")
    execution = table.submit("x", Application("job", (one,)), 0)
    backend = SlurmBackend(cast("Any", slurm), _order, steady_s=lambda: slurm.now_s)
    if late:
        _look(slurm, backend)
    backend.resume(table, execution)
    return backend, execution


@pytest.mark.parametrize(("state", "placed"), [("CANCELLED", 0), ("COMPLETED", 1)])
def test_a_new_leader_reads_how_a_job_ended_whose_node_cleans_up(state: str, placed: int) -> None:
    """One that the leader before has stopped is no failure of its component."""
    slurm, _ = _started(_GANG[0])
    slurm.accounted = [replace(slurm.jobs[1], state=state, comment="")]
    slurm.turn(1, "COMPLETING")
    backend, _ = _led_anew(slurm)
    assert len(backend.state().rows) == placed


def test_a_job_that_a_new_leader_found_ending_and_that_was_stopped_is_lost() -> None:
    """The accounting did not know it yet; no one else's hand is to be seen."""
    slurm, _ = _started(_GANG[0])
    slurm.turn(1, "COMPLETING")
    backend, _ = _led_anew(slurm)
    slurm.turn(1, "CANCELLED")
    assert _look(slurm, backend) == [(EventKind.LOST, "w", 0)]


def test_a_new_leader_keeps_the_limit_of_a_job_whose_comment_the_accounting_has_not() -> None:
    """A limit of the service that is reached is no failure."""
    slurm, _ = _started(_GANG[0])
    comment = limit_comment(slurm.jobs[1].comment, 5)
    slurm.jobs[1] = replace(slurm.jobs[1], comment=comment, state="COMPLETING")
    slurm.accounted = [replace(slurm.jobs[1], state="TIMEOUT", comment="")]
    backend, _ = _led_anew(slurm)
    slurm.turn(1, "TIMEOUT")
    assert _look(slurm, backend) == [(EventKind.LOST, "w", 0)]


@pytest.mark.parametrize("again", [_MOVED[0], _GANG[0]], ids=["there", "here"])
def test_a_gang_that_was_stopped_and_may_never_have_begun_had_none_of_its_time(
    again: Delta,
) -> None:
    """The slurmd of one began after its job; where it runs again, here or there, that is told."""
    slurm, backend = _started(*_GANG)
    assert backend.apply([*_STOPS, again], 40_000) == ()
    slurm.begun_s = {"n0": 30}
    slurm.now_s += 20
    void = [one for one in backend.events(60_000) if one.kind is EventKind.VOID]
    assert [(one.machine, one.index, one.at_ms) for one in void] == [("m-0", 0, 1)]


def test_a_job_that_slurmctld_has_forgotten_is_judged_when_the_accounting_answers() -> None:
    """Before that it may have ended well, and its work would be done again."""
    slurm, backend = _started(_ELASTIC)
    slurm.accounted = [replace(slurm.jobs.pop(1), state="COMPLETED")]
    slurm.is_silent = True
    assert _look(slurm, backend) == []
    slurm.is_silent = False
    assert _look(slurm, backend) == [(EventKind.EXITED, "e", 0)]


def test_a_job_that_slurmctld_has_forgotten_is_lost_where_the_accounting_stays_silent() -> None:
    """It is waited for as long as a start is, and no longer."""
    slurm, backend = _started(_ELASTIC)
    slurm.jobs.pop(1)
    slurm.is_silent = True
    assert _look(slurm, backend) == []
    assert _look(slurm, backend) == [(EventKind.LOST, "e", 0)]


def test_what_was_lost_and_is_found_to_have_ended_well_is_not_run_again() -> None:
    """A slurmctld that began again says for a moment that it waits."""
    slurm, backend = _started(_ELASTIC)
    slurm.turn(1, "PENDING")
    assert _look(slurm, backend) == [(EventKind.LOST, "e", 0)]
    slurm.turn(1, "COMPLETED")
    _look(slurm, backend)
    assert backend.apply([_ELASTIC], 60_000) == ()
    assert len(slurm.jobs) == 1


def test_an_elastic_component_that_ended_well_leaves_its_machine_and_a_core_keeps_it() -> None:
    """Until all of its execution have ended."""
    slurm, backend = _started(*_GANG, _ELASTIC)
    for id_ in (1, 3):
        slurm.turn(id_, "COMPLETED")
    assert (EventKind.EXITED, "e", 0) in _look(slurm, backend)
    assert [row.key for row in backend.state().rows] == [("x", "w", 0), ("x", "w", 1)]


def test_what_slurm_does_not_start_in_time_is_lost() -> None:
    """After `start_s`; one that has begun may take its time."""
    slurm, backend = _started(*_GANG)
    assert backend.apply([_ELASTIC], 0) == ()
    slurm.turn(3, "PENDING")
    assert _look(slurm, backend) == []
    slurm.now_s += slurm.settings.start_s
    assert _look(slurm, backend) == [(EventKind.LOST, "e", 0)]


def test_what_is_not_resumed_before_the_first_look_is_cancelled() -> None:
    """Nobody wants it; what comes later begins again."""
    slurm, _ = _started(_GANG[0])
    backend, execution = _led_anew(slurm, late=True)
    assert (len(backend.state().rows), execution.holds) == (0, False)
    assert slurm.jobs[1].state == "CANCELLED"
