"""Commits that once broke a promise of machines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.files.cluster_file import cluster_from_json
from planner.placement import PlacementResult
from planner.plan.batch.prepare import conflicts_but_for_room
from planner.plan.plan import Plan
from planner.plan.records.changes import (
    Advance,
    Cancel,
    Change,
    Close,
    Degrade,
    Reconfigure,
    Release,
    Relocate,
    Update,
)
from planner.promise import PromiseLevel
from planner.reservations.reservation import AtomAllocation
from planner.reservations.slots import NOWHERE, Slots, slots_of
from planner.validation.validate import validate
from tests.builders import a_request, ask, commit
from tests.planner.plan.plan_json import plan_json


def _cluster() -> Cluster:
    """Return two machines of which one carries a label, each for one bundle at a time."""
    return cluster_from_json(
        {
            "step": "1s",
            "horizon": "40s",
            "promises": {"level": "placed"},
            "machines": [
                {"name": "plain", "count": 1, "resources": {"cpu": 1}},
                {"name": "fast", "count": 1, "labels": ["x"], "resources": {"cpu": 1}},
            ],
        }
    )


def _plan(*sources: str) -> Plan:
    plan = Plan(_cluster(), _cluster().grid())
    for number, source in enumerate(sources):
        request = a_request(f"r{number}", source).on(plan.cluster)
        assert ask(plan, request, agent_named("gree-l")).record is not None
    return plan


def _slots(plan: Plan, name: str) -> list[list[int]]:
    held = plan.reservation(name)
    assert held is not None
    return [slot for atom in held.atoms if atom.slots is not None for slot in atom.slots.tolist()]


def _update(plan: Plan, name: str, source: str, rows: list[list[int]]) -> Update:
    known = plan.reservation(name)
    assert known is not None
    request = a_request(name, source).on(plan.cluster)
    held = np.array(rows, dtype=np.int64)
    index, offsets = np.zeros(1, dtype=np.int64), np.array([0, len(held)])
    return Update(
        name, known.revision, request, PlacementResult(None, "", index, offsets, held), ""
    )


def _place(start: int, end: int) -> str:
    return f"window(atom(<1 cpu>, 1, 1, {end - start}, {end - start}), {start}, {end})"


def test_slots_of_an_update_make_up_rows_that_rise() -> None:
    """Bundles that begin at other steps and end together are laid once each."""
    plan = _plan(_place(0, 4))
    source = "window(atom(<1 cpu>, 1, 2, 2, 7), 10, 14)"
    prepared = commit(plan, _update(plan, "r0", source, [[10, 11, 1], [11, 14, 2]]))
    assert prepared.conflicts == ()
    slots = _slots(plan, "r0")
    assert sorted(slot[:3] for slot in slots) == [[10, 14, 1], [11, 14, 1]]


def test_an_update_that_asks_for_a_label_moves_to_machines_with_it() -> None:
    """The same rows do not keep a machine that the new request does not allow."""
    plan = _plan(_place(4, 8))
    assert [slot[3] for slot in _slots(plan, "r0")] == [0]
    source = 'window(atom(<1 cpu>, 1, 1, 4, 4, on="x"), 4, 8)'
    commit(plan, _update(plan, "r0", source, [[4, 8, 1]]))
    assert [slot[3] for slot in _slots(plan, "r0")] == [1]


def test_an_update_that_asks_for_no_level_keeps_the_one_there_is() -> None:
    """What chose totals for itself is not promised machines because its times change."""
    plan = _plan()
    chosen = replace(a_request("r0", _place(0, 4)).on(plan.cluster), promise=PromiseLevel.POOLED)
    assert ask(plan, chosen, agent_named("gree-l")).record is not None
    commit(plan, _update(plan, "r0", _place(8, 12), [[8, 12, 1]]))
    held = plan.reservation("r0")
    assert held is not None
    assert (held.promise, held.atoms[0].slots) == (PromiseLevel.POOLED, None)


@pytest.mark.parametrize(
    ("rest", "slots"),
    [
        ("4, 14, handover=yes", [[0, 10, 1, 0], [10, 14, 1, 1]]),
        ("6, 14, handover=yes", [[0, 8, 1, 0], [8, 14, 1, 1]]),
        ("8, 14, handover=yes", None),
        ("4, 14, handover=no", None),
    ],
)
def test_begun_bundles_continue_elsewhere_only_after_a_lease_and_where_they_may(
    rest: str, slots: list[list[int]] | None
) -> None:
    """Another promise takes the machine from 10 on; before 14 no lease may be cut."""
    begun = "window(atom(<1 cpu>, 1, 1, 4, 10), 0, 10)"
    plan = _plan(begun, 'window(atom(<1 cpu>, 1, 1, 4, 4, on="x"), 10, 14)', _place(10, 14))
    commit(plan, Cancel("r1"))
    commit(plan, Advance(2))
    assert [slot[3] for slot in _slots(plan, "r0") + _slots(plan, "r2")] == [0, 0]
    source = f"window(atom(<1 cpu>, 1, 1, {rest}), 0, 14)"
    prepared = commit(plan, _update(plan, "r0", source, [[0, 14, 1]]))
    if slots is None:
        assert [one.lacks_machines for one in prepared.conflicts] == [True]
    else:
        assert _slots(plan, "r0") == slots
        assert validate(plan_json(plan), cluster=plan.cluster, grid=plan.grid) == []


@pytest.mark.parametrize("change", [Cancel("r0"), Close("r0")])
def test_judging_changes_leaves_the_capacity_as_it_is(change: Change) -> None:
    """What asks for conflicts alone takes and gives nothing for good."""
    plan = _plan(_place(0, 4))
    before = plan.room._tree.copy()
    assert conflicts_but_for_room(plan, [change]) == []
    assert np.array_equal(plan.room._tree, before)


def test_a_joint_batch_lays_nothing_on_what_another_change_keeps() -> None:
    """Each machine holds one bundle, whichever of the changes is judged first."""
    plan = _plan(_place(4, 8), _place(14, 18))
    number = plan.table.number_of("r0")
    assert number is not None
    kept = replace(plan.table.holding(number), atoms=(replace(_atom(plan, "r0"), slots=None),))
    changes = [_update(plan, "r1", _place(4, 8), [[4, 8, 1]]), Degrade("r0", 1, kept, "")]
    prepared = plan.prepare(changes, plan.version, joint=True)
    assert prepared.record is not None
    plan.apply(prepared.record)
    assert plan.room._tree.min() >= 0


def test_a_joint_batch_leaves_begun_bundles_of_later_changes_on_their_machine() -> None:
    """The first change could take the machine that the second one's bundle runs on."""
    plan = _plan(_place(0, 8), _place(0, 8), _place(20, 24))
    commit(plan, Advance(2))
    commit(plan, Cancel("r1"))
    before = _slots(plan, "r0")
    source = "window(atom(<1 cpu>, 1, 1, 4, 10), 0, 20)"
    changes = [
        _update(plan, "r2", _place(4, 8), [[4, 8, 1]]),
        _update(plan, "r0", source, [[0, 10, 1]]),
    ]
    prepared = plan.prepare(changes, plan.version, joint=True)
    assert prepared.record is not None
    plan.apply(prepared.record)
    assert before == [[0, 8, 1, 0]]
    assert _slots(plan, "r0") == [[0, 10, 1, 0]]
    assert _slots(plan, "r2") == [[4, 8, 1, 1]]


def test_a_relocation_does_not_share_a_machine_with_an_atom_of_its_own() -> None:
    """A slot that stands once stays once, though two atoms of one bundle name it."""
    plan = _plan(f"all({_place(4, 8)}, {_place(4, 8)})")
    slots = tuple(slots_of([[4, 8, 1, 0]]) for _ in range(2))
    assert _relocated(plan, slots).startswith("its new machines have no free capacity")


@pytest.mark.parametrize("machine", [2, -2])
def test_a_relocation_names_machines_that_are_there(machine: int) -> None:
    """A number of no machine is a conflict."""
    plan = _plan(_place(4, 8))
    assert "beyond the last" in _relocated(plan, (slots_of([[4, 8, 1, machine]]),))


def test_what_was_released_stays_on_record_at_the_end() -> None:
    """Held and released rows together are the promise, also after a close."""
    plan = _plan("window(atom(<1 cpu>, 2, 2, 4, 8), 4, 8)")
    given = ((_atom(plan, "r0").path, np.array([[6, 8, 2]])),)
    assert commit(plan, Release("r0", None, given)).conflicts == ()
    commit(plan, Close("r0"))
    released = _atom(plan, "r0").released
    assert released is not None
    assert released.tolist() == [[4, 8, 2]]


def _relocated(plan: Plan, slots: tuple[Slots, ...]) -> str:
    change = Relocate("r0", 1, slots)
    return plan.prepare([change], plan.version).conflicts[0].detail


def _atom(plan: Plan, name: str) -> AtomAllocation:
    held = plan.reservation(name)
    assert held is not None
    return held.atoms[0]


def test_slots_are_in_order_after_machines_have_changed_theirs() -> None:
    """By start, end and machine; those whose machines both left are one."""
    plan = _plan("window(atom(<1 cpu>, 2, 2, 4, 8), 4, 8)")
    assert _slots(plan, "r0") == [[4, 8, 1, 0], [4, 8, 1, 1]]
    plain, fast = plan.cluster.machines
    commit(plan, Reconfigure(replace(plan.cluster, machines=(fast, plain))))
    assert _slots(plan, "r0") == [[4, 8, 1, 0], [4, 8, 1, 1]]
    others = replace(plan.cluster, machines=(replace(plain, name="new"),))
    commit(plan, Reconfigure(others))
    assert _slots(plan, "r0") == [[4, 8, 2, NOWHERE]]
