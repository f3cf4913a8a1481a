"""Where an agent's first place finds no machines, another is searched on the side it plans from."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from planner.agent import Limits, plans_early
from planner.agents import AGENT_NAMES, agent_named
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit
from planner.promise import PromiseLevel
from tests.builders import a_cluster, a_request, commit

HORIZON = 60


def _plan(machines: int) -> Plan:
    """Return a Plan of machines of two cores that promises slots on them."""
    cluster = a_cluster().horizon(HORIZON).machines("m", machines, cpu=2).build()
    cluster = replace(cluster, promise=PromiseLevel.PLACED)
    return Plan(cluster, cluster.grid())


def _admit(plan: Plan, name: str, source: str, agent: str) -> list[list[int]] | None:
    """Return the rows of a request on the Plan, or None if it is refused."""
    planner = agent_named(agent)
    request = a_request(name, source).on(plan.cluster)
    result = planner.plan([request], plan.view(), Limits())[0]
    if not result.placed or commit(plan, Admit(request, result, agent, planner=planner)).conflicts:
        return None
    held = plan.reservation(name)
    assert held is not None
    rows: list[list[int]] = held.atoms[0].rows.tolist()
    return rows


def _one_core_each(plan: Plan, start: int, end: int) -> None:
    """Take one core of each machine: the pool then holds wide bundles that no machine does."""
    count, length = plan.room.machines, end - start
    atom = f"atom(<1 cpu>, {count}, {count}, {length}, {count * length}, spread=1)"
    assert _admit(plan, "beside", f"window({atom}, {start}, {end})", "gree") is not None


def test_the_agents_that_plan_early_say_so() -> None:
    """Only `earliest` does; solvers and portfolios do not."""
    early = {name for name in AGENT_NAMES if plans_early(agent_named(name))}
    assert early == {"earliest"}
    assert not plans_early(None)


def test_an_early_agent_finds_the_first_place_that_machines_have() -> None:
    """No machine has two cores before step 10: it begins then, with time left after it."""
    for agent in ("earliest",):
        plan = _plan(2)
        _one_core_each(plan, 0, 10)
        found = _admit(plan, "r", "window(atom(<2 cpu>, 1, 1, 5, 5), 0, 60)", agent)
        assert found == [[10, 15, 1]], agent


def test_a_late_agent_finds_the_last_place_that_machines_have() -> None:
    """No machine has two cores from step 40 on: it ends then."""
    plan = _plan(2)
    _one_core_each(plan, 40, 60)
    found = _admit(plan, "r", "window(atom(<2 cpu>, 1, 1, 5, 5), 0, 60)", "gree")
    assert found == [[35, 40, 1]]


def test_an_early_place_is_as_high_as_an_early_end_asks() -> None:
    """Two bundles side by side end at step 15; one after the other they would at 20."""
    plan = _plan(2)
    _one_core_each(plan, 0, 10)
    found = _admit(plan, "r", "window(atom(<2 cpu>, 1, 2, 5, 10), 0, 60)", "earliest")
    assert found == [[10, 15, 2]]


_BLOCK = st.tuples(st.integers(0, 40), st.integers(1, 20))


@given(st.lists(_BLOCK, max_size=5), st.integers(1, 8), st.integers(0, 20))
def test_a_bundle_begins_at_the_first_step_with_a_machine(
    blocks: list[tuple[int, int]], length: int, start: int
) -> None:
    """Brute force over all starts and machines finds none before, and refusals none at all."""
    plan = _plan(2)
    for index, (first, steps) in enumerate(blocks):
        atom = f"atom(<1 cpu>, 1, 1, {steps}, {steps}, spread=1)"  # makes no way for others
        source = f"window({atom}, {first}, {first + steps})"
        _admit(plan, f"b{index}", source, "gree")
    held = [[0] * HORIZON for _ in range(plan.room.machines)]
    for one in plan.reservations():
        slots = one.atoms[0].slots
        assert slots is not None
        for first, end, bundles, machine in slots.tolist():
            for step in range(first, end):
                held[machine][step] += bundles
    starts = [
        begin
        for begin in range(start, HORIZON - length + 1)
        if any(not any(steps[begin : begin + length]) for steps in held)
    ]
    source = f"window(atom(<2 cpu>, 1, 1, {length}, {length}), {start}, {HORIZON})"
    found = _admit(plan, "r", source, "earliest")
    assert (found and found[0][0]) == (starts[0] if starts else None)
