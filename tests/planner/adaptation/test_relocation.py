"""Slots that lost their machine, and the outcome of them, on clusters that promise machines."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.adaptation.adapter import needs_adaptation
from planner.adaptation.drain import drained_from, least_held
from planner.adaptation.relocation import has_lost_slots, relocate
from planner.adaptation.result import Effect
from planner.agents import agent_named
from planner.cluster.cluster import Cluster, Outage
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Degrade, Reconfigure
from planner.promise import PromiseLevel
from planner.reservations.reservation import Reservation
from planner.reservations.slots import NOWHERE, split_slots
from planner.reservations.state import State
from tests.builders import a_cluster, a_plan, a_request, ask, commit
from tests.planner.adaptation.events import EVENTS, HORIZON, adapt_now, happen, violations

_MACHINES = 6


def _cluster(machines: int = _MACHINES, cpu: int = 4) -> Cluster:
    cluster = a_cluster().horizon(HORIZON).machines("m", machines, cpu=cpu).build()
    return replace(cluster, promise=PromiseLevel.PLACED)


def _text(cpu: int, height: int, length: int, start: int, end: int) -> str:
    atom = f"atom(<{cpu} cpu>, {height}, {height}, {length}, {height * length})"
    return f"window({atom}, {start}, {end})"


def _away(plan: Plan, index: int, start: int, end: int) -> None:
    """Take one machine of the only group away."""
    out = Outage("m", (index,), start * 1000, end * 1000)
    commit(plan, Reconfigure(replace(plan.cluster, outages=(out,))))


def _slots(plan: Plan, id_: str) -> list[list[int]]:
    found = plan.reservation(id_)
    assert found is not None
    return [one for atom in found.atoms if atom.slots is not None for one in atom.slots.tolist()]


def _rows(one: Reservation) -> list[list[list[int]]]:
    return [atom.all_rows().tolist() for atom in one.atoms]


def _unplaced(plan: Plan) -> set[str]:
    """Return those with slots from now on that have no machine."""
    return {
        one.id
        for one in plan.reservations()
        for atom in one.atoms
        if atom.slots is not None
        for _, end, _, machine in atom.slots.tolist()
        if machine == NOWHERE and end > plan.now
    }


@cache
def _requests() -> st.SearchStrategy[list[str]]:
    one = st.builds(
        lambda cpu, height, length, start, slack: _text(
            cpu, height, length, start, min(HORIZON, start + length + slack)
        ),
        st.integers(1, 4),
        st.integers(1, 3),
        st.integers(2, 8),
        st.integers(0, 14),
        st.integers(0, 10),
    )
    return st.lists(one, min_size=3, max_size=18)


def _planned(texts: list[str], level: PromiseLevel = PromiseLevel.PLACED) -> Plan:
    cluster = replace(_cluster(), promise=level)
    plan = Plan(cluster, cluster.grid())
    for index, text in enumerate(texts):
        request = a_request(f"r{index}", text).if_possible(cluster)
        if request is not None:
            ask(plan, request)
    return plan


@settings(max_examples=60)
@given(
    _requests(), st.integers(0, 12), st.integers(0, _MACHINES - 1), st.integers(0, 10), st.data()
)
def test_a_relocation_changes_machines_alone(
    texts: list[str], now: int, index: int, later: int, data: st.DataObject
) -> None:
    """The Plan takes it; rows and past machines stay; who has no machine after it was reported."""
    plan = _planned(texts)
    commit(plan, Advance(now))
    end = data.draw(st.integers(now + later + 1, HORIZON))
    _away(plan, index, now + later, end)
    before = {one.id: one for one in plan.reservations()}
    past = {one.id: _past(one, now) for one in plan.reservations()}
    found = relocate(plan)
    if found.held:
        prepared = plan.prepare(found.changes(plan), plan.version, joint=True)
        assert prepared.record is not None, prepared.outcomes
        plan.apply(prepared.record)
    assert {one.id: _rows(one) for one in plan.reservations()} == {
        id_: _rows(one) for id_, one in before.items()
    }
    assert {one.id: _past(one, now) for one in plan.reservations()} == past
    told = {plan.table.id_of(number) for number in found.unplaced}
    assert _unplaced(plan) == told
    stands = {
        one.id
        for one in plan.reservations()
        for slot in _slots(plan, one.id)
        if slot[3] == index and slot[0] < end and slot[1] > now + later
    }
    assert not stands
    assert has_lost_slots(plan) == bool(told)


def _past(one: Reservation, now: int) -> list[list[list[int]]]:
    return [
        split_slots(atom.slots, now)[0].tolist() for atom in one.atoms if atom.slots is not None
    ]


@settings(max_examples=60)
@given(_requests(), EVENTS)
def test_what_machines_keep_holds_after_every_event(
    texts: list[str], events: list[tuple[str, object]]
) -> None:
    """After the adapter every promise in force has its machines, and the validator agrees."""
    plan = _planned(texts)
    # An outage that is taken back in its first step leaves no trace of why bundles changed machine.
    for event in (
        one for pair in zip(events, repeat(("advance", 1)), strict=False) for one in pair
    ):
        if plan.now >= HORIZON - 2:
            break
        happen(plan, event)
        assert violations(plan) == []
        for id_ in _unplaced(plan):
            found = plan.reservation(id_)
            assert found is not None
            assert found.state is State.DEGRADED


def test_a_slot_goes_to_another_machine_at_the_same_time() -> None:
    """One machine of two is lost: what stood there stands on the other one, and no work moves."""
    cluster = _cluster(2)
    plan = a_plan(cluster).holding(a_request("a", _text(2, 1, 4, 4, 8)).on(cluster)).build()
    machine = _slots(plan, "a")[0][3]
    _away(plan, machine, 0, HORIZON)
    assert needs_adaptation(plan)
    found = adapt_now(plan)
    assert [one.fate for one in found.affected] == [Effect.RELOCATED]
    assert found.cost.moved == 0
    assert found.relocated == pytest.approx(1.0)
    assert _slots(plan, "a") == [[4, 8, 1, 1 - machine]]
    assert not needs_adaptation(plan)


def test_what_has_begun_stays_until_its_machine_goes() -> None:
    """A lease from 0 to 8 loses its machine at 5: the rest continues elsewhere."""
    cluster = _cluster(2)
    plan = a_plan(cluster).holding(a_request("a", _text(2, 1, 8, 0, 8)).on(cluster)).build()
    machine = _slots(plan, "a")[0][3]
    commit(plan, Advance(2))
    _away(plan, machine, 5, HORIZON)
    adapt_now(plan)
    assert _slots(plan, "a") == [[0, 5, 1, machine], [5, 8, 1, 1 - machine]]
    assert violations(plan) == []


def test_others_give_way_at_the_same_times() -> None:
    """Four of 4 cpu need a whole machine: two of 2 cpu that stand apart are put together."""
    cluster = _cluster(3)
    plan = Plan(cluster, cluster.grid())
    for id_, cpu in (("large", 4), ("one", 2), ("two", 2)):
        ask(plan, a_request(id_, _text(cpu, 1, 4, 4, 8)).on(cluster))
    slots = {id_: _slots(plan, id_)[0] for id_ in ("one", "two")}
    if slots["one"][3] == slots["two"][3]:  # stand them apart
        spare = ({0, 1, 2} - {slots["one"][3], _slots(plan, "large")[0][3]}).pop()
        _stand(plan, "two", spare)
    _away(plan, _slots(plan, "large")[0][3], 0, HORIZON)
    found = adapt_now(plan)
    assert {one.fate for one in found.affected} == {Effect.RELOCATED}
    assert len(found.affected) == 2
    assert _slots(plan, "one")[0][3] == _slots(plan, "two")[0][3]


def _stand(plan: Plan, id_: str, machine: int) -> None:
    from planner.plan.records.changes import Relocate
    from planner.reservations.slots import slots_of

    start, end, bundles, _ = _slots(plan, id_)[0]
    slots = (slots_of([start, end, bundles, machine]),)
    assert not commit(plan, Relocate(id_, 1, slots)).conflicts


def test_what_finds_no_machine_is_moved_in_time() -> None:
    """Two of 3 cpu on two machines; with one lost the second goes after the first."""
    cluster = _cluster(2)
    plan = Plan(cluster, cluster.grid())
    for id_ in ("a", "b"):
        ask(plan, a_request(id_, _text(3, 1, 6, 0, HORIZON)).on(cluster), agent_named("earliest"))
    _away(plan, 0, 0, HORIZON)
    found = adapt_now(plan)
    assert Effect.MOVED in {one.fate for one in found.affected}
    assert not found.of(Effect.DEGRADED)
    assert violations(plan) == []
    assert not needs_adaptation(plan)


def test_the_pool_has_capacity_and_machines_have_not() -> None:
    """Of 2 cpu that are free one is on each of two machines: a bundle of both is degraded."""
    cluster = _cluster(3)
    plan = Plan(cluster, cluster.grid())
    wide = [a_request(f"w{i}", _text(3, 1, 24, 0, 24)).on(cluster) for i in range(2)]
    for request in (*wide, a_request("x", _text(2, 1, 24, 0, 24)).on(cluster)):
        ask(plan, request)
    _away(plan, _slots(plan, "x")[0][3], 0, HORIZON)
    found = adapt_now(plan)
    assert [(one.id, one.fate) for one in found.affected] == [("x", Effect.DEGRADED)]
    assert "no other machines" in found.affected[0].reason
    commit(plan, Reconfigure(replace(plan.cluster, outages=())))
    found = adapt_now(plan)
    assert [(one.id, one.fate) for one in found.affected] == [("x", Effect.RESTORED)]
    assert not _unplaced(plan)
    assert violations(plan) == []


def test_offers_to_what_was_degraded_hold_on_machines() -> None:
    """Two machines have one cpu left each; a bundle of two is offered only what one can hold."""
    cluster = replace(_cluster(3), promise=PromiseLevel.PLACED)
    plan = Plan(cluster, cluster.grid())
    texts = [_text(3, 1, 24, 0, 24)] * 2 + [_text(2, 1, 8, 8, 16)]
    for index, text in enumerate(texts):
        ask(plan, a_request(f"r{index}", text).on(cluster))
    _away(plan, _slots(plan, "r2")[0][3], 4, 20)
    found = adapt_now(plan)
    (degraded,) = [one for one in found.changes if isinstance(one, Degrade)]
    assert degraded.id == "r2"
    for number, offer in enumerate(degraded.offers):
        request = a_request(f"o{number}", offer["expression"]).on(plan.cluster)
        twin = plan.copy()
        ask(twin, request, agent_named("gree-l"))
        assert twin.reservation(request.id) is not None, offer


def test_new_occurrences_get_machines_with_an_advance() -> None:
    """Where machines have capacity for them nothing is left to adapt."""
    cluster = replace(
        a_cluster().horizon(24).max_period(24).machines("m", 2, cpu=4).build(),
        promise=PromiseLevel.PLACED,
    )
    request = a_request("r", "every(6, atom(<3 cpu>, 2, 2, 2, 4))").on(cluster)
    plan = a_plan(cluster).holding(request).build()
    commit(plan, Advance(13, 36))
    assert not _unplaced(plan)
    assert not needs_adaptation(plan)
    assert violations(plan) == []


@pytest.mark.parametrize("offset", ["true", "false"])
def test_what_is_left_of_a_recurrence_keeps_its_rules_and_its_slots(offset: str) -> None:
    """One run finds no machines; the others keep one bundle a machine, on the machines they had."""
    cluster = _cluster(4)
    text = f"every(10, atom(<2 cpu>, 2, 2, 2, 4, spread=1), times=3, same_offset={offset})"
    plan = a_plan(cluster).holding(a_request("r", text).on(cluster)).build()
    before = [slot for slot in _slots(plan, "r") if not 10 <= slot[0] < 20]
    out = Outage("m", (0, 1, 2, 3), 10_000, 20_000)
    commit(plan, Reconfigure(replace(plan.cluster, outages=(out,))))
    adapt_now(plan)
    found = plan.reservation("r")
    assert found is not None
    assert found.state is State.DEGRADED
    assert {(atom.rule.spread, atom.rule.handover) for atom in found.atoms} == {(1, False)}
    assert sorted(_slots(plan, "r")) == sorted(before)
    assert violations(plan) == []


def test_a_drain_takes_the_machines_with_the_least_to_move() -> None:
    """Of three machines the two without slots go; where all are the same the highest do."""
    cluster = _cluster(3)
    plan = a_plan(cluster).holding(a_request("a", _text(2, 1, 4, 4, 8)).on(cluster)).build()
    busy = _slots(plan, "a")[0][3]
    drain = Outage("m", (1, 2), 0, HORIZON * 1000, "drain")
    found = least_held(plan, cluster, drain)
    assert found.indices == tuple(sorted({0, 1, 2} - {busy}))
    later = least_held(plan, cluster, replace(drain, start_ms=10_000))
    assert later.indices == (1, 2)


def test_a_drain_waits_for_begun_slots_on_its_own_machines() -> None:
    """A lease from 0 to 8 holds its machine only: another one is free at once."""
    cluster = _cluster(2)
    plan = a_plan(cluster).holding(a_request("a", _text(2, 1, 8, 0, 8)).on(cluster)).build()
    commit(plan, Advance(2))
    busy = _slots(plan, "a")[0][3]
    for index, start in ((busy, 8), (1 - busy, 2)):
        drain = Outage("m", (index,), 2000, HORIZON * 1000, "drain")
        assert drained_from(plan, cluster, drain) == start
