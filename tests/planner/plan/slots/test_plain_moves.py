"""Joint relocations at the same times: all are judged at once, as one by one."""

from __future__ import annotations

from collections.abc import Sequence

from planner.agents import agent_named
from planner.files.cluster_file import cluster_from_json
from planner.plan.plan import Plan
from planner.plan.records.changes import Relocate
from planner.promise import PromiseLevel
from planner.reservations.slots import slots_of
from planner.validation.validate import validate
from tests.builders import a_request, ask
from tests.planner.plan.plan_json import plan_json


def _plan(*sources: str) -> Plan:
    """Return a Plan of three machines of four cores, one of them labelled, and its reservations."""
    machines = [
        {"name": "a", "count": 2, "resources": {"cpu": 4}},
        {"name": "b", "count": 1, "labels": ["x"], "resources": {"cpu": 4}},
    ]
    promises = {"level": "placed"}
    cluster = cluster_from_json(
        {"step": "1s", "horizon": "40s", "promises": promises, "machines": machines}
    )
    plan = Plan(cluster, cluster.grid())
    for index, source in enumerate(sources):
        request = a_request(f"r{index}", source).on(cluster)
        assert ask(plan, request, agent_named("gree-l")).record is not None
    return plan


def _slots(plan: Plan, id_: str) -> list[list[int]]:
    held = plan.reservation(id_)
    assert held is not None
    assert held.atoms[0].slots is not None
    return held.atoms[0].slots.tolist()


def _jointly(plan: Plan, *moves: tuple[str, Sequence[list[int]]]) -> str:
    """Give reservations slots, all or none; return why they cannot have them, or nothing."""
    changes = [Relocate(id_, 1, (slots_of(list(to)),), PromiseLevel.PLACED) for id_, to in moves]
    room = plan.room._tree.copy()
    prepared = plan.prepare(changes, plan.version, joint=True)
    assert (plan.room._tree == room).all()
    if prepared.record is None:
        return next(one.detail for one in prepared.conflicts)
    plan.apply(prepared.record)
    assert validate(plan_json(plan), cluster=plan.cluster, grid=plan.grid) == []
    return ""


WHOLE = "window(atom(<4 cpu>, 1, 1, 10, 10), 10, 20)"


def test_two_swap_their_machines_jointly() -> None:
    """Capacity is judged once all have left theirs."""
    plan = _plan(WHOLE, WHOLE)
    here, there = _slots(plan, "r0"), _slots(plan, "r1")
    assert here[0][3] != there[0][3]
    assert _jointly(plan, ("r0", there), ("r1", here)) == ""
    assert (_slots(plan, "r0"), _slots(plan, "r1")) == (there, here)


def test_who_finds_no_capacity_is_reported_and_no_one_moves() -> None:
    """Two that come to one machine do not both fit."""
    plan = _plan(WHOLE, WHOLE)
    free = ({0, 1, 2} - {_slots(plan, "r0")[0][3], _slots(plan, "r1")[0][3]}).pop()
    before = plan_json(plan)
    told = _jointly(plan, ("r0", [[10, 20, 1, free]]), ("r1", [[10, 20, 1, free]]))
    assert "no free capacity any more" in told
    assert plan_json(plan) == before


def test_several_bundles_of_a_slot_part() -> None:
    """What stood on one machine may go to two, at the same times."""
    plan = _plan("window(atom(<1 cpu>, 3, 3, 10, 30), 10, 20)")
    ((start, end, bundles, machine),) = _slots(plan, "r0")
    other = (machine + 1) % 2
    parts = sorted([[start, end, 1, machine], [start, end, bundles - 1, other]], key=lambda s: s[3])
    assert _jointly(plan, ("r0", parts)) == ""
    assert _slots(plan, "r0") == parts


def test_a_label_is_kept_jointly_too() -> None:
    """A bundle for machines with a label goes to no other."""
    plan = _plan('window(atom(<4 cpu>, 1, 1, 10, 10, on="x"), 10, 20)')
    assert "without the label" in _jointly(plan, ("r0", [[10, 20, 1, 0]]))


def test_a_machine_that_is_not_there_is_refused_jointly_too() -> None:
    """Machines have the numbers 0 to 2."""
    plan = _plan(WHOLE)
    assert "beyond the last" in _jointly(plan, ("r0", [[10, 20, 1, 3]]))
