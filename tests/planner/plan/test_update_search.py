"""Updates whose own place finds no machines: they are placed where machines have room, or not."""

from __future__ import annotations

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.files.cluster_file import cluster_from_json
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Prepared, Update
from planner.renegotiation import renegotiation_of
from planner.validation.validate import validate
from tests.builders import a_request, ask, commit
from tests.planner.plan.plan_json import plan_json

LATE = agent_named("gree-l")


def _pair(cores: int = 4) -> Cluster:
    """Return two machines."""
    return cluster_from_json(
        {
            "step": "1s",
            "horizon": "40s",
            "promises": {"level": "placed"},
            "machines": [{"name": "m", "count": 2, "resources": {"cpu": cores}}],
        }
    )


def _plan(cluster: Cluster, **sources: str) -> Plan:
    plan = Plan(cluster, cluster.grid())
    for name, source in sources.items():
        ask(plan, a_request(name, source).on(cluster), LATE)
        assert plan.reservation(name) is not None, plan.refusal(name)
    return plan


def _renegotiate(plan: Plan, name: str, source: str) -> Prepared:
    """Change a request as the service does."""
    present = plan.reservation(name)
    assert present is not None
    request = a_request(name, source).on(plan.cluster, plan.grid)
    update = renegotiation_of(plan, name, request)
    result = update.place(LATE, Limits())
    assert result.placed, result
    change = Update(
        name, present.revision, request, result, LATE.name, planner=update.planner(LATE)
    )
    return commit(plan, change)


def _rows(plan: Plan, name: str) -> list[list[int]]:
    held = plan.reservation(name)
    assert held is not None
    return [row for atom in held.atoms for row in atom.rows.tolist()]


def _slots(plan: Plan, name: str) -> list[list[int]]:
    held = plan.reservation(name)
    assert held is not None
    return [slot for atom in held.atoms if atom.slots is not None for slot in atom.slots.tolist()]


def _is_valid(plan: Plan) -> bool:
    return validate(plan_json(plan), cluster=plan.cluster, grid=plan.grid) == []


#: One core is left on each machine from 20 to 30.
WALL = "window(atom(<3 cpu>, 2, 2, 10, 20), 20, 30)"


def test_an_update_that_has_not_begun_is_placed_where_machines_have_capacity() -> None:
    """Totals have two cores left at the late end, and no machine has them both."""
    plan = _plan(_pair(), wall=WALL, a="window(atom(<1 cpu>, 1, 1, 5, 5), 0, 30)")
    prepared = _renegotiate(plan, "a", "window(atom(<2 cpu>, 1, 1, 5, 5), 0, 30)")
    assert prepared.conflicts == ()
    assert _rows(plan, "a") == [[15, 20, 1]]
    assert _is_valid(plan)


def test_an_update_that_machines_hold_nowhere_changes_nothing() -> None:
    """The conflict says that machines were short, and the old promise stands as it was."""
    plan = _plan(_pair(), wall=WALL, a="window(atom(<1 cpu>, 1, 1, 5, 5), 20, 30)")
    before, left = _slots(plan, "a"), plan.room._tree.copy()
    prepared = _renegotiate(plan, "a", "window(atom(<2 cpu>, 1, 1, 5, 5), 20, 30)")
    assert [one.lacks_machines for one in prepared.conflicts] == [True]
    assert _slots(plan, "a") == before
    assert (plan.room._tree == left).all()


def test_an_update_of_several_atoms_is_placed_where_machines_have_capacity() -> None:
    """Both atoms of an order move before the wall."""
    pair = "window(order(atom(<{0} cpu>, 1, 1, 5, 5), atom(<{0} cpu>, 1, 1, 5, 5)), 0, 30)"
    plan = _plan(_pair(), wall=WALL, a=pair.format(1))
    assert _renegotiate(plan, "a", pair.format(2)).conflicts == ()
    assert _rows(plan, "a") == [[10, 15, 1], [15, 20, 1]]
    assert _is_valid(plan)


def test_the_rest_of_what_has_begun_is_placed_where_machines_have_capacity() -> None:
    """What runs stays on its machine until its lease ends; the rest goes before the wall."""
    source = "window(atom(<2 cpu>, 1, 1, 5, {}), 0, 30)"
    wall = "window(atom(<3 cpu>, 2, 2, 10, 20), 20, 30)"
    first = "window(atom(<2 cpu>, 1, 1, 5, 5), 0, 5)"
    plan = _plan(_pair(), wall=wall, a=first)
    commit(plan, Advance(2))
    begun = _slots(plan, "a")[0]
    assert _renegotiate(plan, "a", source.format(10)).conflicts == ()
    assert begun in _slots(plan, "a")
    assert sum((end - start) * count for start, end, count in _rows(plan, "a")) == 10
    assert max(end for _, end, _ in _rows(plan, "a")) <= 20
    assert _is_valid(plan)
