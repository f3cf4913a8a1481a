"""Slots that another user found are judged: what breaks a rule of machines is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.agents import agent_named
from planner.cluster.cluster import Outage
from planner.files.cluster_file import cluster_from_json
from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Conflict, Reconfigure, Relocate
from planner.promise import PromiseLevel
from planner.reservations.slots import NOWHERE, slots_of
from planner.validation.validate import validate
from tests.builders import a_request, ask, commit
from tests.planner.plan.plan_json import plan_json

#: Machines 0 and 1 stand in rack r1, 2 in r2 with the label x, 3 in no rack.
MACHINES: list[dict[str, Any]] = [
    {"name": "a", "count": 2, "resources": {"cpu": 4}, "domains": {"rack": "r1"}},
    {
        "name": "b",
        "count": 1,
        "labels": ["x"],
        "resources": {"cpu": 4},
        "domains": {"rack": "r2"},
    },
    {"name": "c", "count": 1, "resources": {"cpu": 4}},
]


def _plan(source: str, now: int = 0, level: PromiseLevel = PromiseLevel.PLACED) -> Plan:
    cluster = cluster_from_json(
        {
            "step": "1s",
            "horizon": "40s",
            "promises": {"level": "placed", "requests_may_choose": ["pooled"]},
            "machines": MACHINES,
        }
    )
    plan = Plan(cluster, cluster.grid())
    request = replace(a_request("r", source).on(cluster), promise=level)
    assert ask(plan, request, agent_named("gree-l")).record is not None
    if now:
        commit(plan, Advance(now))
    return plan


def _give(plan: Plan, *slots: list[int], level: PromiseLevel = PromiseLevel.PLACED) -> str:
    """Give the one atom slots; return why it cannot have them, or nothing."""
    change = Relocate("r", 1, (slots_of(sorted(slots)),))
    before, room = plan_json(plan), plan.room._tree.copy()
    prepared = plan.prepare([change], plan.version)
    assert (plan.room._tree == room).all()
    if prepared.record is None:
        (told,) = prepared.conflicts
        assert isinstance(told, Conflict)
        assert told.code is Code.CONFLICT
        assert plan_json(plan) == before
        return told.detail
    plan.apply(prepared.record)
    assert validate(plan_json(plan), cluster=plan.cluster, grid=plan.grid) == []
    return ""


def _machines(plan: Plan) -> list[list[int]]:
    held = plan.reservation("r")
    assert held is not None
    assert held.atoms[0].slots is not None
    return held.atoms[0].slots.tolist()


ONE = "window(atom(<4 cpu>, 1, 1, 10, 10{}), 10, 20)"


def test_a_slot_of_an_atom_with_a_label_needs_a_machine_that_carries_it() -> None:
    """Machine 0 has capacity and lacks the label."""
    plan = _plan(ONE.format(', on="x"'))
    assert "without the label 'x'" in _give(plan, [10, 20, 1, 0])


@pytest.mark.parametrize(
    ("spread", "slots", "told"),
    [
        ("spread=1", [[10, 20, 2, 0]], "more than 1 bundles"),
        ("spread=1, by=rack", [[10, 20, 1, 0], [10, 20, 1, 1]], "more than 1 bundles"),
        ("spread=1, by=rack", [[10, 20, 1, 0], [10, 20, 1, 3]], "in no rack"),
        ("spread=1, by=rack", [[10, 20, 1, 1], [10, 20, 1, 2]], ""),
        ("within=rack", [[10, 20, 1, 1], [10, 20, 1, 2]], "not all in one rack"),
        ("within=rack", [[10, 20, 2, 3]], "not all in one rack"),
        ("within=rack", [[10, 20, 1, 0], [10, 20, 1, 1]], ""),
    ],
)
def test_slots_keep_the_spread_of_their_atom(
    spread: str, slots: list[list[int]], told: str
) -> None:
    """By machine, or by the value of a domain; a machine in none holds none."""
    plan = _plan(f"window(atom(<1 cpu>, 2, 2, 10, 20, {spread}), 10, 20)")
    found = _give(plan, *slots)
    assert told in found
    assert bool(told) == bool(found)


@pytest.mark.parametrize(
    ("rest", "told"),
    [
        ("5, 10, handover=no", "no handover"),
        ("5, 10, handover=yes", ""),
        ("6, 10, handover=yes", "less than a lease of 6"),
    ],
)
def test_a_bundle_changes_machine_between_leases_and_where_it_may(rest: str, told: str) -> None:
    """Half of the time on each of two machines."""
    plan = _plan(f"window(atom(<1 cpu>, 1, 1, {rest}), 10, 20)")
    found = _give(plan, [10, 15, 1, 0], [15, 20, 1, 2])
    assert told in found
    assert bool(told) == bool(found)


def test_a_bundle_that_is_handed_over_keeps_each_machine_a_lease_of_its_occurrence() -> None:
    """Occurrences that meet on a machine are not one stay: each of them keeps a lease."""
    plan = _plan("every(10, atom(<4 cpu>, 1, 1, 4, 10, handover=yes), times=2)")
    assert "for 2 steps, less than a lease of 4" in _give(
        plan, [0, 10, 1, 0], [10, 12, 1, 0], [12, 20, 1, 1]
    )
    assert not _give(plan, [0, 10, 1, 0], [10, 14, 1, 0], [14, 20, 1, 1])


def test_what_has_begun_keeps_its_machine() -> None:
    """Its past stays, and its rest may not continue elsewhere, for the machine is there."""
    plan = _plan(ONE.format(""), now=12)
    machine = _machines(plan)[0][3]
    other = (machine + 1) % 4
    assert "past" in _give(plan, [10, 20, 1, other])
    assert "have begun leave it" in _give(plan, [10, 12, 1, machine], [12, 20, 1, other])


def test_what_has_begun_leaves_a_machine_that_is_lost() -> None:
    """Whether its atom allows a handover or not."""
    plan = _plan(ONE.format(", handover=no"), now=12)
    machine = _machines(plan)[0][3]
    name, index = plan.cluster.machine_names[machine].split("-")
    lost = (Outage(name, (int(index),), 12_000, 40_000),)
    commit(plan, Reconfigure(replace(plan.cluster, outages=lost)))
    assert not _give(plan, [10, 12, 1, machine], [12, 20, 1, (machine + 1) % 4])


def test_a_slot_is_not_given_up_while_its_machine_is_there() -> None:
    """A relocation finds machines; it takes none away."""
    plan = _plan(ONE.format(""))
    assert "no machine where it has one" in _give(plan, [10, 20, 1, NOWHERE])


def test_only_what_is_promised_machines_is_relocated_and_with_slots_for_each_atom() -> None:
    """A reservation of totals has no machines; one of machines needs slots for all its atoms."""
    plan = _plan(ONE.format(""))
    nothing = Relocate("r", 1, ())
    assert "0 lists of slots" in plan.prepare([nothing], plan.version).conflicts[0].detail
    pooled = _plan(ONE.format(""), level=PromiseLevel.POOLED)
    change = Relocate("r", 1, (slots_of([10, 20, 1, 0]),))
    assert "promised totals" in pooled.prepare([change], pooled.version).conflicts[0].detail


@pytest.mark.parametrize("jointly", [False, True])
def test_a_slot_that_was_cut_on_its_machine_does_not_leave_it_for_less_than_a_lease(
    jointly: bool,
) -> None:
    """Two slots that follow on one machine are one stay; the end of it is no slot by itself."""
    plan = _plan("window(atom(<4 cpu>, 1, 1, 3, 6, handover=yes), 10, 16)")
    ((start, end, _, machine),) = _machines(plan)
    other = (machine + 1) % 4
    cut = [[start, end - 2, 1, machine], [end - 2, end, 1, machine]]
    assert _give(plan, *cut) == ""

    slots = slots_of([cut[0], [end - 2, end, 1, other]])
    prepared = plan.prepare([Relocate("r", 1, (slots,))], plan.version, joint=jointly)

    assert prepared.record is None
    assert "for 2 steps, less than a lease of 3" in prepared.conflicts[0].detail
    halves = [[start, start + 3, 1, machine], [start + 3, end, 1, other]]
    assert _give(plan, *halves) == ""
