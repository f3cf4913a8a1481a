"""What people, administrators and failures do to jobs of components, on a real Slurm."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dispatch.applications.application import Application, Component
from dispatch.backends.slurm.backend import SlurmBackend
from dispatch.backends.slurm.control.capabilities import find_capabilities
from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.executions.assignment import Delta, Op
from dispatch.executions.events import BackendEvent, EventKind
from dispatch.executions.states import ExecutionState
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool
from planner.cluster.cluster import Cluster, MachineGroup
from rdl.resources import Resources
from tests.contract.backend_rooms import SlurmRoom
from tests.patience import eventually

pytestmark = pytest.mark.slurm

KEY = ("x", "w", 0)
START = Delta(Op.START, *KEY, "m-0")


@pytest.fixture
def room(tmp_path: Path) -> Iterator[SlurmRoom]:
    """Return a backend on two nodes."""
    found = SlurmRoom(tmp_path)
    try:
        yield found
    finally:
        found.close()


def told(backend: SlurmBackend, kind: EventKind) -> BackendEvent:
    """Return the next event of a kind; those before it are dropped."""
    found: list[BackendEvent] = []

    def look() -> BackendEvent | None:
        found.extend(backend.events(60_000))
        return next((event for event in found if event.kind is kind), None)

    event = eventually(look)
    assert event is not None
    return event


def running(room: SlurmRoom) -> int:
    """Start the component; return its job."""
    assert room.backend.apply([START], 0) == ()
    told(room.backend, EventKind.STARTED)
    eventually(lambda: room.starts(KEY) == 1)  # Slurm tells before the first command
    return room.job_of(KEY)


def test_a_job_cancelled_by_hand_is_a_failure(room: SlurmRoom) -> None:
    """Who cancels it wants it gone: it is not started again by itself."""
    room.slurm.commands.cancel([running(room)])
    event = told(room.backend, EventKind.FAILED)
    assert event.detail.startswith("cancelled in Slurm")
    assert room.backend.state().rows == ()


def test_a_job_whose_reservation_goes_before_it_begins_is_lost(room: SlurmRoom) -> None:
    """Slurm holds it for ever; it is begun again where the Plan has it next."""
    slurm, name = room.slurm.commands, f"{room.settings.prefix}_gone_1"
    room.lose("m-0")
    assert room.backend.apply([START], 0) == ()
    job, now_s = room.job_of(KEY), int(time.time())
    slurm.create_reservation(name, now_s, now_s + 30, ["n1"], [room.settings.user])
    slurm.update_job(job, reservationname=name)
    assert told(room.backend, EventKind.LOST).detail == (
        f"its reservation in Slurm ended before it began (job {job})"
    )
    assert room.backend.state().rows == ()
    room.restore("m-0")


def test_a_requeued_job_is_lost_and_does_not_run_again_by_itself(room: SlurmRoom) -> None:
    """What an administrator requeues is Agenda's to place; Slurm's copy is cancelled."""
    job = running(room)
    room.slurm.commands.update_job(job, requeue="1")
    room.slurm.commands.run("scontrol", "requeue", str(job))
    event = told(room.backend, EventKind.LOST)
    assert "put back into Slurm's queue" in event.detail

    def is_gone() -> bool:
        room.backend.events(60_000)
        return not room.slurm.jobs(room.settings.prefix)[-1].is_open

    eventually(is_gone, pause_s=0.2)
    assert room.starts(KEY) == 1


def test_a_preempted_job_is_lost(room: SlurmRoom) -> None:
    """Another partition's job of a higher tier takes the node: no failure of the work."""
    running(room)
    room.slurm.commands.run(
        "sbatch", "--parsable", f"--job-name={room.settings.prefix}-other", "--partition=main",
        "--nodelist=n1", "--exclusive", "--output=/dev/null", "--wrap=sleep 600",
    )  # fmt: skip
    assert told(room.backend, EventKind.LOST).detail.startswith("Slurm preempted it")


def test_a_node_of_other_people_is_not_waited_for(room: SlurmRoom) -> None:
    """A component that came second is lost and its machine away, until their job has ended."""
    room.slurm.commands.run(
        "sbatch", "--parsable", f"--job-name={room.settings.prefix}-other", "--partition=main",
        "--nodelist=n1", "--exclusive", "--output=/dev/null", "--wrap=sleep 600",
    )  # fmt: skip
    eventually(lambda: room.slurm.jobs(room.settings.prefix)[0].is_up)
    assert room.backend.apply([START], 0) == ()
    assert "other people's jobs run on m-0" in told(room.backend, EventKind.LOST).detail
    assert room.backend.machines().lost == {}  # no outage of the Plan: promised work may have it
    assert "other people's jobs" in room.backend.apply([START], 0)[0].reason
    room.slurm.commands.cancel([room.slurm.jobs(room.settings.prefix)[0].id])
    assert told(room.backend, EventKind.MACHINE_BACK).machine == "m-0"


def test_a_job_that_was_moved_is_lost(room: SlurmRoom) -> None:
    """An administrator gives it another node: it does not run where no one counts it."""
    room.slurm.commands.run("scontrol", "update", "partitionname=scavenge", "state=down")
    try:
        assert room.backend.apply([START], 0) == ()
        room.slurm.commands.update_job(room.job_of(KEY), reqnodelist="n2")
    finally:
        room.slurm.commands.run("scontrol", "update", "partitionname=scavenge", "state=up")
    assert "moved to n2" in told(room.backend, EventKind.LOST).detail


def test_a_job_whose_time_limit_is_lowered_fails_when_it_reaches_it(room: SlurmRoom) -> None:
    """Slurm's least limit is a minute; what it ends in that way is the component's failure."""
    room.slurm.commands.update_job(running(room), timelimit="1")
    found: list[BackendEvent] = []

    def has_failed() -> bool:
        found.extend(room.backend.events(60_000))
        return any(event.kind is EventKind.FAILED for event in found)

    eventually(has_failed, pause_s=1)
    assert [event.kind for event in found] == [EventKind.FAILED]
    assert found[0].detail.startswith("it reached its time limit in Slurm")


def test_a_suspended_job_goes_on_when_it_is_resumed(room: SlurmRoom) -> None:
    """An administrator stops it for a while: it is neither lost nor started elsewhere."""
    job = running(room)
    room.slurm.commands.run("scontrol", "suspend", str(job))
    eventually(lambda: _jobs(room, "w")[0].state == "SUSPENDED")
    assert room.backend.events(60_000) == ()
    room.slurm.commands.run("scontrol", "resume", str(job))
    room.end(KEY)
    assert told(room.backend, EventKind.EXITED).detail == ""
    assert room.starts(KEY) == 1


def test_a_job_that_is_held_while_it_waits_is_lost(tmp_path: Path) -> None:
    """After `start_s`, with Slurm's reason: it is placed again."""
    room = SlurmRoom(tmp_path, start_s=2.0)
    try:
        room.slurm.commands.run("scontrol", "update", "partitionname=scavenge", "state=down")
        assert room.backend.apply([START], 0) == ()
        room.slurm.commands.run("scontrol", "hold", str(room.job_of(KEY)))
        room.slurm.commands.run("scontrol", "update", "partitionname=scavenge", "state=up")
        assert "JobHeld" in told(room.backend, EventKind.LOST).detail
    finally:
        room.slurm.commands.run("scontrol", "update", "partitionname=scavenge", "state=up")
        room.close()


def test_a_restart_of_slurmctld_changes_nothing(room: SlurmRoom) -> None:
    """While it is away nothing is reported and starts are refused; what ran continues."""
    running(room)
    room.slurm.kill("slurmctld")
    assert room.backend.events(60_000) == ()
    refused = room.backend.apply([Delta(Op.START, "y", "w", 0, "m-1")], 5)
    assert len(refused) == 1
    assert refused[0].reason
    assert room.backend.apply([Delta(Op.STOP, *KEY, "m-0")], 5)[0].reason
    room.slurm.start("slurmctld")
    eventually(lambda: _answers(room))
    assert [row.key for row in room.backend.state().rows] == [KEY]
    room.slurm.wait_for_nodes()
    room.end(KEY)
    events: list[BackendEvent] = []

    def has_left() -> bool:
        events.extend(room.backend.events(60_000))
        return not room.backend.state().rows

    eventually(has_left)
    assert [event.kind for event in events] == [EventKind.EXITED]  # no machine was lost
    assert room.starts(KEY) == 1


def _answers(room: SlurmRoom) -> bool:
    try:
        return bool(room.slurm.commands.jobs())
    except SlurmError:
        return False


def table_of(core: int, elastic: int) -> ExecutionTable:
    """Return a table with the execution x of two groups, on machines m-0 and m-1."""
    group = MachineGroup("m", 2, Resources.of({"cpu": 4000, "memory": 2000}))
    table = ExecutionTable(MachinePool(Cluster(1000, 3_600_000, (group,))))
    small = Resources.of({"cpu": 1000})
    parts = (Component("w", core, True, small, "run"), Component("e", elastic, False, small, "run"))
    table.submit("x", Application("job", parts), 0)
    return table


def test_a_new_leader_goes_on_with_what_runs(room: SlurmRoom) -> None:
    """A core runs, an elastic one has ended meanwhile: nothing begins a second time."""
    elastic = ("x", "e", 0)
    first = room.backend
    assert first.apply([START, Delta(Op.GROW, *elastic, "m-1")], 0) == ()
    eventually(lambda: room.starts(KEY) == room.starts(elastic) == 1)
    room.end(elastic)
    eventually(lambda: not any(job.is_open for job in _jobs(room, "e")))

    second = room.backend_of(2)
    table = table_of(1, 2)
    execution = table.get("x")
    assert execution is not None
    second.resume(table, execution)
    for event in second.events(60_000):
        table.take(event)

    assert execution.state is ExecutionState.RUNNING
    assert [row.key for row in second.state().rows] == [KEY]
    assert execution.parts[1].wanted == 1  # the one that ended does not come back
    assert room.starts(KEY) == 1


def test_a_new_leader_cancels_what_belongs_to_nobody(room: SlurmRoom) -> None:
    """A job of an execution that is over ends; the old leader does not touch the new one's."""
    running(room)
    second = room.backend_of(2)
    second.events(60_000)
    eventually(lambda: not any(job.is_open for job in _jobs(room, "w")), pause_s=0.2)

    assert second.apply([Delta(Op.START, "y", "w", 0, "m-1")], 0) == ()
    told(second, EventKind.STARTED)
    eventually(lambda: room.starts(("y", "w", 0)) == 1)
    told(room.backend, EventKind.FAILED)  # it looks, and sees a job that it does not know
    room.backend.events(60_000)
    assert second.events(60_000) == ()
    assert room.starts(("y", "w", 0)) == 1
    assert any(job.is_up for job in _jobs(room, "w"))


def test_two_leaders_do_not_run_a_component_twice_at_a_time(room: SlurmRoom) -> None:
    """A second job of the same component waits for the first to end."""
    job = running(room)
    other = room.backend_of(1)
    assert other.apply([START], 5) == ()

    def of_second() -> tuple[str, str]:
        found = room.slurm.jobs(room.settings.prefix)
        return (found[1].state, found[1].reason) if len(found) == 2 else ("", "")

    # Slurm says why it waits when it has tried to start it.
    assert eventually(of_second, lambda found: found[1] not in ("", "None")) == (
        "PENDING",
        "Dependency",
    )
    room.slurm.commands.cancel([job])
    assert eventually(lambda: room.starts(KEY) == 2)


def test_what_a_slurm_lacks_is_said_at_once(room: SlurmRoom) -> None:
    """A partition and a node: both in one message; a tier where the partitions are there."""
    bad = replace(room.settings, promised="scavenge", best_effort="gone", machines={"m-0": "n99"})
    with pytest.raises(SlurmError) as caught:
        find_capabilities(bad, room.slurm.commands)
    text = str(caught.value)
    for part in ("no such partition; it has agenda, main, scavenge", "no such node"):
        assert part in text
    swapped = replace(room.settings, promised="scavenge", best_effort="agenda")
    with pytest.raises(SlurmError, match="must be above"):
        find_capabilities(swapped, room.slurm.commands)


def _jobs(room: SlurmRoom, component: str) -> list[SlurmJob]:
    found = room.slurm.jobs(room.settings.prefix)
    return [job for job in found if f"/{component}/" in job.name]
