"""What the follower says of slots: which machines now and soon, early ones, and what is ahead."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.entitlements.directive import Directive
from dispatch.entitlements.follower import PlanFollower
from dispatch.entitlements.slots import LOST, NEVER, ActiveSlot
from dispatch.entitlements.start_delay import StartDelayTable, size_class
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Cancel, Close, Reconfigure
from rdl.resources import Resources
from tests.builders import a_cluster, commit
from tests.dispatch.cycle.slot_world import promised_machines, relocate, reserve, slots_of

_PAIR = promised_machines(a_cluster().machines("m", 2, cpu=4).build())


def _said(directive: Directive, name: str = "r0") -> list[ActiveSlot]:
    """Return the slots of a reservation that a directive names."""
    return [
        slot
        for one in directive.entitlements
        if one.reservation == name
        for share in one.atoms
        for slot in share.slots
    ]


def _held(plan: Plan, step: int) -> dict[tuple[str, str | None], int]:
    """Bundles by reservation and machine at a step, straight from the reservations."""
    found: dict[tuple[str, str | None], int] = {}
    for reservation in plan.reservations():
        for atom in reservation.atoms:
            assert atom.slots is not None
            for start, end, bundles, machine in atom.slots.tolist():
                if start <= step < end:
                    key = (reservation.id, reservation.machines[machine])
                    found[key] = found.get(key, 0) + bundles
    return found


@settings(max_examples=40)
@given(st.data())
def test_entitlements_name_the_machines_of_the_plan(data: st.DataObject) -> None:
    """At any instants, through commits, recurring work too; a fresh follower says the same."""
    cluster = promised_machines(a_cluster().machines("m", 4, cpu=3).build())
    plan = Plan(cluster, cluster.grid())
    follower = PlanFollower(plan)
    for number in range(data.draw(st.integers(1, 6))):
        height, lease = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([5, 20]))
        atom = f"atom(<1 cpu>, 1, {height}, {lease}, {height * lease * 2})"
        text = data.draw(st.sampled_from([atom, f"every(50, {atom}, times=3)"]))
        reserve(plan, f"r{number}", f"window({text}, {data.draw(st.integers(0, 60))}, 400)")
        alive = [one.id for one in plan.reservations()]
        if alive and data.draw(st.booleans()):
            commit(plan, data.draw(st.sampled_from([Cancel, Close]))(alive[0]))
        for at_s in data.draw(st.lists(st.integers(0, 420), max_size=4)):
            directive = follower.follow(at_s * 1000)
            said: dict[tuple[str, str | None], int] = {}
            for one in directive.entitlements:
                for slot in _said(directive, one.reservation):
                    key = (one.reservation, slot.machine)
                    said[key] = said.get(key, 0) + slot.bundles
            assert said == _held(plan, at_s)
            again = PlanFollower(plan).follow(at_s * 1000)
            assert (again.entitlements, again.soon) == (directive.entitlements, directive.soon)


def test_soon_names_what_begins_within_the_grace() -> None:
    """A slot at 30 s is in `soon` from 25 s on, and holds from 30 s on."""
    plan = Plan(_PAIR, _PAIR.grid())
    assert reserve(plan, "r0", "window(atom(<2 cpu>, 1, 1, 20, 20), 30, 50)")
    follower = PlanFollower(plan)
    soon = [bool(follower.follow(at * 1000).soon) for at in (24, 25, 30)]
    assert soon == [False, True, True]
    machine = f"m-{slots_of(plan, 'r0')[0][3]}"
    assert _said(follower.follow(30_000)) == [ActiveSlot(machine, 1, 30, 50)]
    assert _said(follower.follow(29_000)) == []


def test_a_move_is_followed_at_once() -> None:
    """After a relocation the same rows are on the other machine."""
    plan = Plan(_PAIR, _PAIR.grid())
    assert reserve(plan, "r0", "window(atom(<2 cpu>, 1, 1, 20, 20), 30, 50)")
    follower = PlanFollower(plan)
    follower.follow(30_000)
    machine = slots_of(plan, "r0")[0][3]
    commit(plan, relocate(plan, "r0", 0, {machine: 1 - machine}))
    assert [slot.machine for slot in _said(follower.follow(30_000))] == [f"m-{1 - machine}"]


def test_machines_described_again_give_slots_other_numbers_and_the_same_names() -> None:
    """A group before the others shifts every number; one that shrinks leaves its slots nowhere."""
    plan = Plan(_PAIR, _PAIR.grid())
    assert reserve(plan, "r0", "window(atom(<4 cpu>, 2, 2, 20, 40), 30, 50)")
    follower = PlanFollower(plan)
    before = _said(follower.follow(30_000))
    wider = a_cluster().machines("a", 3, cpu=1).machines("m", 2, cpu=4).build()
    commit(plan, Reconfigure(promised_machines(wider)))
    assert _said(follower.follow(30_000)) == before
    smaller = a_cluster().machines("m", 1, cpu=4).build()
    commit(plan, Reconfigure(promised_machines(smaller)))
    machines = {slot.machine for slot in _said(follower.follow(30_000))}
    assert machines == {LOST, "m-0"}


def test_a_slot_begins_early_on_its_own_machine_where_that_has_capacity() -> None:
    """Components that start 5 s late are anticipated, not beside a slot that fills the machine."""
    cluster = promised_machines(a_cluster().machines("m", 1, cpu=4).build())
    plan = Plan(cluster, cluster.grid())
    assert reserve(plan, "r0", "window(atom(<4 cpu>, 1, 1, 20, 20), 0, 20)")
    assert reserve(plan, "r1", "window(atom(<3 cpu>, 1, 1, 20, 20), 20, 40)")
    assert reserve(plan, "r2", "window(atom(<1 cpu>, 1, 1, 20, 20), 40, 60)")
    late = StartDelayTable(
        {size_class(Resources.of({"cpu": cores * 1000})): 5_000 for cores in (1, 3)}
    )
    follower = PlanFollower(plan, delays=late)
    assert _said(follower.follow(17_000), "r1") == []
    assert _said(follower.follow(37_000), "r2") == [ActiveSlot("m-0", 1, 40, 60)]
    assert [one.reservation for one in follower.follow(37_000).planned] == ["r1"]


def test_what_is_ahead_is_the_next_slot_of_each_machine() -> None:
    """Steps until it begins; one that has begun does not count, and a Plan of totals has none."""
    plan = Plan(_PAIR, _PAIR.grid())
    assert PlanFollower(plan).follow(0).ahead is None
    assert reserve(plan, "r0", "window(atom(<4 cpu>, 1, 1, 20, 20), 30, 50)")
    mine = slots_of(plan, "r0")[0][3]
    follower = PlanFollower(plan)
    ahead = follower.follow(10_000).ahead
    assert ahead is not None
    assert (ahead.until[mine], ahead.until[1 - mine]) == (20, NEVER)
    assert ahead.own("r0") == [mine]
    later = follower.follow(30_000).ahead
    assert later is not None
    assert later.until[mine] == NEVER
    commit(plan, Advance(60), at_ms=60_000)
    assert follower.follow(60_000).ahead is None
    totals = replace(_PAIR, promise=type(_PAIR.promise).POOLED)
    pooled = Plan(totals, totals.grid())
    assert reserve(pooled, "r0", "window(atom(<4 cpu>, 1, 1, 20, 20), 30, 50)")
    assert PlanFollower(pooled).follow(0).ahead is None
