"""Gangs that run together in the dispatcher: all components of their application start, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dispatch.applications.application import Application, Component
from dispatch.cycle.cover import cover_faults
from dispatch.executions.assignment import Op
from dispatch.executions.states import ExecutionState
from planner.adaptation.adapter import adapt
from planner.agent import Limits
from planner.cluster.cluster import Outage
from planner.plan.records.changes import Reconfigure
from rdl.resources import Resources
from tests.builders import a_cluster, a_plan, commit
from tests.dispatch.cycle.slot_world import SlotWorld, promised_machines, reserve

#: Two machines that hold a driver, and four of two GPUs each.
CLUSTER = promised_machines(
    a_cluster().horizon(60).machines("big", 2, cpu=8).machines("gpu", 4, cpu=8, gpu=2).build()
)
JOB = (
    "window(together(driver: atom(<6 cpu>, 1, 1, 10, 10), "
    "workers: atom(<3 cpu, 1 gpu>, 6, 6, 10, 60)), 10, 40)"
)
DRIVER, WORKERS = Resources.of({"cpu": 6000}), Resources.of({"cpu": 3000, "gpu": 1})


def world(job: str = JOB) -> SlotWorld:
    """Return a world with the job, which starts at 30."""
    plan = a_plan(CLUSTER).build()
    assert reserve(plan, "job", job)
    return SlotWorld(CLUSTER, plan)


def application(
    *components: Component, name: str = "training", atom: str | None = None
) -> Application:
    """Return an application of the job."""
    return Application(name, components, reservation="job", atom=atom)


def driver_and_workers() -> Application:
    """Return one application with a component for each member."""
    return application(
        Component("driver", 1, True, DRIVER, atom="0.0"),
        Component("workers", 6, True, WORKERS, atom="0.1"),
    )


def starts(world: SlotWorld) -> set[int]:
    """Return the steps at which what is reserved starts."""
    held = world.plan.reservation("job")
    assert held is not None
    return {int(atom.rows[0, 0]) for atom in held.atoms}


def test_driver_and_workers_start_in_the_same_cycle_each_in_its_own_slots() -> None:
    """Nothing runs before the slots begin, and all of it from then on."""
    here = world()
    (start,) = starts(here)
    here.submit(driver_and_workers()).awaits_slot = True
    here.tick(start - 1)
    assert here.held("training") == [0, 0]
    here.tick(start)
    assert here.held("training") == [1, 6]
    machines = {row.component: row.machine for row in here.table.assignment().rows}
    assert machines["driver"].startswith("big")
    assert machines["workers"].startswith("gpu")


@pytest.mark.parametrize("lost", ["big", "gpu"])
def test_a_machine_lost_just_before_the_start_keeps_every_member_from_starting(lost: str) -> None:
    """No other machine can replace it: nothing starts until all of it starts, once it is moved."""
    big, gpu = CLUSTER.machines
    cluster = replace(CLUSTER, machines=(replace(big, count=1), replace(gpu, count=3)))
    plan = a_plan(cluster).build()
    assert reserve(plan, "job", JOB.replace("10, 40)", "10, 20)"))
    here = SlotWorld(cluster, plan)
    assert starts(here) == {10}
    here.submit(driver_and_workers()).awaits_slot = True
    here.tick(8)
    away = (Outage(lost, (0,), 9_000, 12_000),)
    commit(plan, Reconfigure(replace(cluster, outages=away)))
    for second in (10, 11):
        here.tick(second)
        assert here.held("training") == [0, 0]
        assert here.state("training") is ExecutionState.QUEUED
    here.tick(13)
    assert here.held("training") == [1, 6]


def test_a_whole_that_the_plan_moves_starts_at_its_new_time() -> None:
    """A lost machine is found before the start: the adapter moves all members, and they start."""
    here = world(JOB.replace("10, 40)", "10, 50)"))
    (start,) = starts(here)
    here.submit(driver_and_workers()).awaits_slot = True
    here.tick(20)
    away = (Outage("big", (0, 1), 30_000, 45_000), Outage("gpu", (3,), 30_000, 45_000))
    commit(here.plan, Reconfigure(replace(CLUSTER, outages=away)))
    found = adapt(here.plan, Limits(work=20, seed=1))
    prepared = here.plan.prepare(found.changes, found.based_on, joint=True)
    assert prepared.record is not None, prepared.outcomes
    here.plan.apply(prepared.record)
    (moved,) = starts(here)
    assert (start, moved) == (40, 20)
    here.tick(21)
    assert here.held("training") == [1, 6]


def test_components_that_name_no_member_may_take_the_slots_of_another() -> None:
    """A driver of the size of two workers takes their slots, so it names its own."""
    plan = a_plan(CLUSTER).build()
    job = (
        "window(together(driver: atom(<4 cpu>, 1, 1, 10, 10), "
        "workers: atom(<2 cpu, 1 gpu>, 8, 8, 10, 80)), 0, 10)"
    )
    assert reserve(plan, "job", job)
    here = SlotWorld(CLUSTER, plan)
    driver = Component("driver", 1, True, Resources.of({"cpu": 4000}), atom="0.0")
    workers = Component("workers", 8, True, Resources.of({"cpu": 2000, "gpu": 1}), atom="0.1")
    here.submit(application(driver, workers))
    here.tick(0)
    assert here.held("training") == [1, 8]


def test_an_application_that_names_the_together_draws_on_all_of_its_members() -> None:
    """The path of the whole means every member, and one member only its own."""
    here = world()
    ahead = [one for _, one in here.follower.ahead("job")]
    both = (Component("d", 1, True, DRIVER), Component("w", 6, True, WORKERS))
    assert cover_faults(ahead, application(*both, atom="0"), here.pool) == []
    (fault,) = cover_faults(ahead, application(*both, atom="0.0"), here.pool)
    assert fault.component == 1
    wrong = application(Component("w", 6, True, WORKERS, atom="0.0"), name="wrong")
    assert [one.component for one in cover_faults(ahead, wrong, here.pool)] == [0]


def test_an_application_of_one_member_starts_in_its_own_slots() -> None:
    """The slots of the others stay free for what their applications bring."""
    here = world()
    (start,) = starts(here)
    workers = application(Component("workers", 6, True, WORKERS), name="w", atom="0.1")
    here.submit(workers).awaits_slot = True
    here.tick(start)
    assert here.held("w") == [6]
    here.submit(application(Component("driver", 1, True, DRIVER), name="d", atom="0.0"), start)
    here.tick(start + 1)
    assert here.held("d") == [1]


@pytest.mark.parametrize(("every", "ends_at"), [(False, 1), (True, 2)])
def test_an_application_ends_with_its_first_core_or_with_all_of_them(
    every: bool, ends_at: int
) -> None:
    """The driver exits first: by default that is the end, else the workers' last exit is."""
    here = world()
    (start,) = starts(here)
    here.submit(replace(driver_and_workers(), needs_every_core=every)).awaits_slot = True
    here.tick(start)
    states = []
    for at, component in ((start + 1, "driver"), (start + 2, "workers")):
        rows = [row for row in here.table.assignment().rows if row.component == component]
        for row in rows:
            here.backend.end(row.key, at * 1000)
        here.tick(at)
        states.append(here.state("training"))
    assert states.index(ExecutionState.COMPLETED) + 1 == ends_at


def test_cores_that_exit_with_the_last_of_another_component_are_stopped_at_the_backend() -> None:
    """Backends remember a core that has exited until they are told that its application is over."""
    here = world()
    (start,) = starts(here)
    here.submit(driver_and_workers()).awaits_slot = True
    here.tick(start)
    for key in (("training", "driver", 0), ("training", "workers", 3)):
        here.backend.end(key, (start + 1) * 1000)
    cycle = here.tick(start + 1)
    assert here.state("training") is ExecutionState.COMPLETED
    stopped = {(one.component, one.index) for one in cycle.deltas if one.op is Op.STOP}
    assert stopped == {("driver", 0), *(("workers", index) for index in range(6))}
