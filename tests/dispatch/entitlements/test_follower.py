"""PlanFollower: entitlements are the Plan's rows at an instant, whatever was asked before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.entitlements.directive import Standing
from dispatch.entitlements.follower import EarlyRoom, PlanFollower
from dispatch.entitlements.slots import ActiveSlot
from dispatch.executions.predecessors import predecessors_of
from planner.plan.plan import Plan
from planner.plan.records.changes import Cancel, Close, Reconfigure
from rdl.compile.source import read_source
from rdl.resources import Resources
from tests.builders import a_cluster, a_plan, a_request, ask, commit


def _bundles(plan: Plan, at_s: int) -> dict[str, int]:
    """Bundles held at an instant by reservation, straight from the reservations."""
    step = at_s * 1000 // plan.grid.step_ms
    found: dict[str, int] = {}
    for reservation in plan.reservations():
        for atom in reservation.atoms:
            for start, end, bundles in atom.all_rows().tolist():
                if start <= step < end:
                    found[reservation.id] = found.get(reservation.id, 0) + bundles
    return found


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_entitlements_are_the_rows_of_the_plan(data: st.DataObject) -> None:
    """At any instants in any order, through commits; a fresh follower says the same."""
    cluster = a_cluster().machines("plain", 12, cpu=1).build()
    plan = a_plan(cluster).build()
    follower = PlanFollower(plan)
    for number in range(data.draw(st.integers(1, 8))):
        height, lease = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([5, 20]))
        start = data.draw(st.integers(0, 60))
        atom = f"atom(<1 cpu>, 1, {height}, {lease}, {height * lease * 2})"
        text = data.draw(st.sampled_from([atom, f"every(50, {atom}, times=3)"]))
        ask(plan, a_request(f"r{number}", f"window({text}, {start}, 400)").on(cluster))
        alive = [one.id for one in plan.reservations()]
        if alive and data.draw(st.booleans()):
            commit(plan, data.draw(st.sampled_from([Cancel, Close]))(alive[0]))
        for at_s in data.draw(st.lists(st.integers(0, 420), max_size=4)):
            directive = follower.follow(at_s * 1000)
            said = {e.reservation: sum(a.bundles for a in e.atoms) for e in directive.entitlements}
            assert said == _bundles(plan, at_s)
            soon = {e.reservation: sum(a.bundles for a in e.atoms) for e in directive.soon}
            assert soon == _bundles(plan, at_s + 5)
            again = PlanFollower(plan).follow(at_s * 1000)
            assert (again.entitlements, again.soon) == (directive.entitlements, directive.soon)
            numbers = [e.number for e in directive.entitlements]
            assert numbers == sorted(numbers)


def test_nothing_changes_while_the_plan_and_the_step_stay() -> None:
    """Two ticks of one step share their entitlements; a commit makes new ones."""
    cluster = a_cluster().step("10s").build()
    request = a_request("r1", "window(atom(<1 cpu>, 1, 5, 60, 300), 0, 60)").on(cluster)
    plan = a_plan(cluster).holding(request).build()
    follower = PlanFollower(plan)
    first = follower.follow(11_000)
    assert follower.follow(14_000).entitlements is first.entitlements
    ask(plan, a_request("r2", "window(atom(<1 cpu>, 1, 5, 60, 300), 0, 60)").on(cluster))
    later = follower.follow(14_000)
    assert [e.reservation for e in later.entitlements] == ["r1", "r2"]
    assert later.entitlements[0] is first.entitlements[0]


def test_standings_tell_later_active_over_and_unknown() -> None:
    """Before, within and after its rows; an id that the Plan has never seen."""
    cluster = a_cluster().build()
    text = "window(atom(<1 cpu>, 5, 5, 60, 300), 100, 160)"
    plan = a_plan(cluster).holding(a_request("r1", text).on(cluster)).build()
    follower = PlanFollower(plan)
    stand = {at: follower.follow(at * 1000).standings.of("r1") for at in (99, 100, 159, 160)}
    assert stand == {
        99: Standing.LATER,
        100: Standing.ACTIVE,
        159: Standing.ACTIVE,
        160: Standing.OVER,
    }
    assert follower.follow(0).standings.of("nobody") is Standing.UNKNOWN
    commit(plan, Cancel("r1"))
    assert follower.follow(99_000).standings.of("r1") is Standing.OVER


def test_outages_take_machines_away_and_release_them() -> None:
    """[50, 60) of the last two machines; five seconds before they are away soon."""
    base = a_cluster().machines("plain", 4, cpu=1)
    plan = a_plan(base.build()).build()
    commit(plan, Reconfigure(base.outage("plain", 2, "50s", "60s").build()))
    follower = PlanFollower(plan)
    gone = frozenset({"plain-2", "plain-3"})
    assert [follower.follow(at * 1000).away for at in (49, 50, 59, 60)] == [
        frozenset(),
        gone,
        gone,
        frozenset(),
    ]
    assert follower.follow(45_000).away_soon == gone


def test_predecessors_are_what_order_and_graph_say() -> None:
    """An order's earlier children, a graph's ancestors; nothing in all; a wrong path is told."""
    atom = "atom(<1 cpu>, 1, 1, 1, 1)"
    order = read_source(f"window(order({atom}, all({atom}, {atom}), {atom}), 0, 100)")
    assert predecessors_of(order, "0.0") == ()
    assert predecessors_of(order, "0.1.1") == ("0.0",)
    assert predecessors_of(order, "0.2") == ("0.0", "0.1")
    graph = read_source(f"graph(a: {atom}, b: {atom}, c: {atom}; a -> b, b -> c)")
    assert predecessors_of(graph, "2") == ("0", "1")
    with pytest.raises(ValueError, match=r"no atom '0\.7'"):
        predecessors_of(order, "0.7")


def test_slots_begin_early_beside_what_others_take() -> None:
    """Of three cores on two machines; one of the machines has one."""
    whole = a_cluster().machines("m", 2, cpu=2).build()
    core = Resources.of({"cpu": 1000})
    room = EarlyRoom(replace(whole, taken=(("m-1", core),)), frozenset(), ())
    found = [room.take_fitting(ActiveSlot(name, 4, 0, 1), core) for name in ("m-1", None)]
    assert [one and one.bundles for one in found] == [1, 2]
