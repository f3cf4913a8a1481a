"""Work run above an entitlement is measured, and the latest leases it replaces are released."""

from __future__ import annotations

from typing import Any

import pytest

from dispatch.accounts.credits import CreditBook
from dispatch.applications.application import Kind
from planner.agent import Limits
from planner.agents import agent_named
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Update
from planner.renegotiation import renegotiation_of
from planner.replanning.commitment import commitment_of
from planner.reservations.state import State
from planner.validation.validate import validate
from tests.builders import a_cluster, a_plan, a_request, commit
from tests.dispatch.cycle.world import World, an_application
from tests.planner.plan.plan_json import plan_json

FLAT = "window(atom(<1 cpu>, 1, 2, 1, 20), 0, 10)"


def _world(text: str = FLAT, *, horizon: int = 30, agent: str = "gree") -> World:
    """Return six machines of a core, and one reservation of two of them for ten seconds."""
    cluster = a_cluster().horizon(horizon).machines("m", 6, cpu=1).build()
    request = a_request("r", text).on(cluster)
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


def _held(plan: Plan, first: int, last: int) -> int:
    found = plan.reservation("r")
    assert found is not None
    return sum(
        max(0, min(end, last) - max(start, first)) * count
        for atom in found.atoms
        for start, end, count in atom.rows.tolist()
    )


def _released(plan: Plan) -> int:
    found = plan.reservation("r")
    assert found is not None
    return sum(
        (end - start) * count
        for atom in found.atoms
        if atom.released is not None
        for start, end, count in atom.released.tolist()
    )


def test_what_ran_above_is_released_latest_first() -> None:
    """Four components on an entitlement of two do 20 bundle-seconds by 5 s: it ends at 7.

    The last second of the two that are not covered could still be undone.
    """
    world = _world()
    _join(world)
    _run(world, 0, 5)
    found = world.plan.reservation("r")
    assert found is not None
    assert found.atoms[0].rows.tolist() == [[0, 7, 2]]
    assert _released(world.plan) == 6
    assert validate(plan_json(world.plan), cluster=world.cluster) == []
    _run(world, 6, 8)
    assert world.plan.table.state(0) is State.COMPLETED


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("window(atom(<1 cpu>, 2, 2, 4, 24, credit=yes), 0, 12)", 0),
        ("window(atom(<1 cpu>, 2, 2, 2, 24, credit=yes), 0, 12)", 4),
    ],
)
def test_leases_go_whole(text: str, given: int) -> None:
    """After 5 s 20 - 12 ran early, less a lease of the two without cover: 4 of leases of 2 s."""
    world = _world(text)
    _join(world)
    _run(world, 0, 5)
    assert _released(world.plan) == given


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("window(atom(<1 cpu>, 1, 2, 1, 20, credit=no), 0, 10)", {}),
        ("window(atom(<1 cpu>, 2, 2, 2, 20), 0, 10)", {}),
        ("every(10, window(atom(<1 cpu>, 1, 2, 1, 20), 0, 10), times=2)", {}),
        (FLAT, {"kind": Kind.INTERACTIVE}),
    ],
)
def test_all_is_kept_of(text: str, more: dict[str, Any]) -> None:
    """An atom that says so, a gang, a recurrence, and what an interactive application runs on."""
    world = _world(text)
    _join(world, **more)
    _run(world, 0, 6)
    assert _released(world.plan) == 0


def test_an_update_may_say_that_nothing_is_released_any_more() -> None:
    """What the reservation says now counts, not what it said when the application came."""
    world = _world("window(atom(<1 cpu>, 1, 2, 1, 20), 0, 30)", agent="earliest")
    _join(world)
    _run(world, 0, 1)
    asked = a_request("r", "window(atom(<1 cpu>, 1, 2, 1, 20, credit=no), 0, 30)")
    request = asked.on(world.cluster)
    update = renegotiation_of(world.plan, "r", request)
    result = update.place(agent_named("earliest"), Limits())
    revision = int(world.plan.table.meta[0]["revision"])
    before = _released(world.plan)
    assert commit(world.plan, Update("r", revision, request, result, "earliest")).record
    _run(world, 2, 6)
    assert _released(world.plan) <= before


@pytest.mark.parametrize("lease", [1, 3])
@pytest.mark.parametrize("elastic", [0, 2, 4])
@pytest.mark.parametrize("comes", [0, 4])
@pytest.mark.parametrize("restarts", [None, 3])
def test_what_has_run_and_what_is_left_are_never_less_than_what_was_asked(
    lease: int, elastic: int, comes: int, restarts: int | None
) -> None:
    """However wide it runs, whenever it comes, and where its account is lost on the way.

    Twelve steps of two bundles: what it ran, up to the end of the present step at its entitlement,
    and what it holds from then on. Where it never fell behind they are at least the 24 asked for.
    """
    world = _world(f"window(atom(<1 cpu>, 1, 2, {lease}, 24), 0, 12)", agent="earliest")
    ran = owed = 0
    for at_s in range(13):
        if at_s == comes:
            _join(world, elastic=elastic)
        if at_s == restarts and at_s > comes:
            world.loop.credit = CreditBook()
            world.loop.credit.watch(world.table.get("a"), world.plan)
        held = _held(world.plan, at_s, at_s + 1)
        _run(world, at_s, at_s)
        execution = world.table.get("a")
        now = 0 if execution is None else sum(part.running for part in execution.parts)
        ran += now
        owed += max(0, held - now)
        left = _held(world.plan, at_s + 1, 30)
        assert ran + owed + left >= 24
    assert validate(plan_json(world.plan), cluster=world.cluster) == []


def test_a_stop_of_what_is_not_covered_undoes_nothing_that_was_released() -> None:
    """Two without cover run for 6 s and are stopped within their leases of 2 s: 4 are lost."""
    world = _world("window(atom(<1 cpu>, 1, 2, 2, 40), 0, 20)")
    _join(world)
    _run(world, 0, 6)
    assert _released(world.plan) == 6
    execution = world.table.get("a")
    assert execution is not None
    execution.parts[1].wanted = 1
    _run(world, 7, 12)
    useful = 6 * 4 + 7 * 2 - 4
    assert useful + _held(world.plan, 13, 30) >= 40
    assert _released(world.plan) == 6


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


def test_nothing_that_runs_within_its_entitlement_is_released() -> None:
    """One core and one elastic component use exactly what is held."""
    world = _world()
    _join(world, elastic=1)
    _run(world, 0, 9)
    assert _released(world.plan) == 0


def test_work_that_began_again_does_not_count() -> None:
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
    """Started early it could still be stopped: nothing goes by 4 s, all but a second at 5 s."""
    world = _world("window(atom(<1 cpu>, 1, 2, 1, 20), 5, 15)")
    _join(world)
    _run(world, 0, 4)
    assert world.held("a") == [1, 3]
    assert _released(world.plan) == 0
    _run(world, 5, 5)
    assert _released(world.plan) == 16


def test_what_an_update_plans_again_is_released_again() -> None:
    """The adapter moves whole promises; the work that was run still counts afterwards."""
    world = _world("window(atom(<1 cpu>, 1, 2, 1, 20), 0, 30)", agent="earliest")
    _join(world)
    _run(world, 0, 4)
    assert _released(world.plan) == 4
    execution = world.table.get("a")
    assert execution is not None
    execution.parts[1].wanted = 1  # from now on it runs within its entitlement
    _run(world, 5, 5)
    request = commitment_of(world.plan, 0).request
    assert request is not None
    update = renegotiation_of(world.plan, "r", request)
    result = update.place(agent_named("earliest"), Limits())
    revision = int(world.plan.table.meta[0]["revision"])
    assert commit(world.plan, Update("r", revision, request, result, "earliest")).record
    assert _released(world.plan) == 0
    _run(world, 6, 6)
    assert _released(world.plan) >= 4


def test_a_clock_that_jumps_back_counts_nothing() -> None:
    """Time told twice is counted once: of 12 run by 3 s 2 may be undone, 8 are held till 4 s."""
    for jumps in (0, 3):
        world = _world()
        _join(world)
        _run(world, 0, 2)
        for _ in range(jumps):
            world.tick(1)
            world.tick(2)
        _run(world, 3, 3)
        assert _released(world.plan) == 2


def test_a_long_pause_is_not_taken_for_work() -> None:
    """Of an hour between two ticks a minute counts, and the entitlement counts in full."""
    world = _world("window(atom(<1 cpu>, 1, 2, 1, 14400), 0, 7200)", horizon=7200)
    _join(world)
    _run(world, 0, 0)
    _run(world, 3600, 3600)
    assert _released(world.plan) == 0
