"""Work run above an entitlement is measured, and the latest leases it replaces are given back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dispatch.accounts.credits import CreditBook
from planner.agent import Limits
from planner.agents import agent_named
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Update
from planner.renegotiation.renegotiation import renegotiation_of
from planner.replanning.commitment import commitment_of
from planner.reservations.state import State
from planner.validation.validate import validate
from tests.builders import a_cluster, a_plan, a_request, commit
from tests.dispatch.cycle.world import World, an_application
from tests.planner.plan.plan_json import plan_json

FLAT = "window(atom(<1 cpu>, 1, 2, 1, 20), 0, 10)"


def _world(
    text: str = FLAT, *, creditable: bool = True, horizon: int = 30, agent: str = "gree"
) -> World:
    """Return six machines of a core, and one reservation of two of them for ten seconds."""
    cluster = a_cluster().horizon(horizon).machines("m", 6, cpu=1).build()
    request = replace(a_request("r", text).on(cluster), creditable=creditable)
    world = World(cluster, a_plan(cluster).placed_by(agent).holding(request).build())
    world.loop.credit = CreditBook()
    return world


def _join(world: World, name: str = "a", core: int = 1, elastic: int = 3, **more: Any) -> None:
    assert world.loop.credit is not None
    application = an_application(name, core, elastic, reservation="r", **more)
    world.loop.credit.watch(world.submit(application), world.plan)


def _run(world: World, first: int, last: int) -> None:
    """Tick every second, and commit what is due."""
    assert world.loop.credit is not None
    for at_s in range(first, last + 1):
        if at_s > world.plan.now:
            commit(world.plan, Advance(at_s))
        world.tick(at_s)
        for change in world.loop.credit.due(world.plan, at_s * 1000):
            assert not commit(world.plan, change).conflicts


def _released(plan: Plan) -> int:
    found = plan.reservation("r")
    assert found is not None
    return sum(
        (end - start) * count
        for atom in found.atoms
        if atom.released is not None
        for start, end, count in atom.released.tolist()
    )


def test_what_ran_above_is_given_back_latest_first() -> None:
    """Four components on an entitlement of two do 20 bundle-seconds by 5 s: it ends at 6."""
    world = _world()
    _join(world)
    _run(world, 0, 5)
    found = world.plan.reservation("r")
    assert found is not None
    assert found.atoms[0].rows.tolist() == [[0, 6, 2]]
    assert _released(world.plan) == 8
    assert validate(plan_json(world.plan), cluster=world.cluster) == []
    _run(world, 6, 7)
    assert world.plan.table.state(0) is State.COMPLETED


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("window(atom(<1 cpu>, 2, 2, 5, 20), 0, 10)", 0),
        ("window(atom(<1 cpu>, 2, 2, 2, 20), 0, 10)", 4),
    ],
)
def test_leases_go_whole(text: str, given: int) -> None:
    """After 4 s the work ahead is 16 - 10 = 6: no gang of 2 x 5 s, one of 2 x 2 s."""
    world = _world(text)
    _join(world)
    _run(world, 0, 4)
    assert _released(world.plan) == given


def test_only_creditable_reservations_give_back() -> None:
    """Without the flag the allocation stays as it is."""
    world = _world(creditable=False)
    _join(world)
    _run(world, 0, 6)
    assert _released(world.plan) == 0


def test_two_executions_of_an_atom_give_nothing_back() -> None:
    """Whose work the rows are for is not known then."""
    world = _world()
    _join(world, "a", 1, 4)
    _join(world, "b", 1, 0)
    _run(world, 0, 6)
    assert _released(world.plan) == 0


def test_what_was_missed_counts_against_what_ran_above() -> None:
    """It comes at 5 s: by 10 s it has only made up for what it did not run before."""
    world = _world()
    _run(world, 0, 4)
    _join(world)
    _run(world, 5, 9)
    assert _released(world.plan) == 0


def test_nothing_that_runs_within_its_entitlement_is_given_back() -> None:
    """One core and one elastic component use exactly what is held."""
    world = _world()
    _join(world, elastic=1)
    _run(world, 0, 9)
    assert _released(world.plan) == 0


def test_work_that_began_anew_does_not_count() -> None:
    """A requeued execution has lost what it ran: it is not ahead until it has run it again."""
    world = _world()
    _join(world)
    _run(world, 0, 1)
    execution = world.table.get("a")
    assert execution is not None
    world.table.requeue(execution, 1500, "a test")
    _run(world, 2, 4)
    assert _released(world.plan) == 0


def test_work_before_its_reservation_is_credited_once_its_core_is_covered() -> None:
    """Started early it could still be stopped: nothing goes by 4 s, all that is left at 5 s."""
    world = _world("window(atom(<1 cpu>, 1, 2, 1, 20), 5, 15)")
    _join(world)
    _run(world, 0, 4)
    assert world.held("a") == [1, 3]
    assert _released(world.plan) == 0
    _run(world, 5, 5)
    assert _released(world.plan) == 18


def test_what_an_update_plans_again_is_given_back_again() -> None:
    """The adapter moves whole promises; the work that was run still counts afterwards."""
    world = _world("window(atom(<1 cpu>, 1, 2, 1, 20), 0, 30)", agent="earliest")
    _join(world)
    _run(world, 0, 3)
    assert _released(world.plan) == 4
    execution = world.table.get("a")
    assert execution is not None
    execution.parts[1].wanted = 1  # from now on it runs within its entitlement
    _run(world, 4, 4)
    request = commitment_of(world.plan, 0).request
    assert request is not None
    update = renegotiation_of(world.plan, "r", request)
    result = update.place(agent_named("earliest"), Limits())
    revision = int(world.plan.table.meta[0]["revision"])
    assert commit(world.plan, Update("r", revision, request, result, "earliest")).record
    assert _released(world.plan) == 0
    _run(world, 5, 5)
    assert _released(world.plan) >= 4


def test_a_clock_that_jumps_back_counts_nothing() -> None:
    """Time that is told twice is counted once: 12 run by 3 s, 8 held till 4 s, 4 given back."""
    for jumps in (0, 3):
        world = _world()
        _join(world)
        _run(world, 0, 2)
        for _ in range(jumps):
            world.tick(1)
            world.tick(2)
        _run(world, 3, 3)
        assert _released(world.plan) == 4


def test_a_long_pause_is_not_taken_for_work() -> None:
    """Of an hour between two ticks a minute counts, and the entitlement counts in full."""
    world = _world("window(atom(<1 cpu>, 1, 2, 1, 14400), 0, 7200)", horizon=7200)
    _join(world)
    _run(world, 0, 0)
    _run(world, 3600, 3600)
    assert _released(world.plan) == 0
