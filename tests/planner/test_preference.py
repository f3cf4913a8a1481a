"""Which option of `any` a plan takes where `prefer` says what each is worth."""

from __future__ import annotations

import pytest

from planner.agents import AGENT_NAMES, agent_named
from planner.files import WorkloadLine
from planner.validation.validate import validate
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_workload
from tests.builders import a_cluster

#: Agents that do not weigh: they take the first option that fits.
_GREEDY = [name for name in AGENT_NAMES if not hasattr(agent_named(name), "solve")]


@pytest.mark.parametrize("agent", _GREEDY)
@pytest.mark.parametrize(
    ("prefer", "taken", "value"),
    [
        ("", 0, 3.0),
        (", prefer=[1, 0.5, 0.5]", 0, 3.0),
        (", prefer=[0.5, 1, 1]", 1, 3.0),
        (", prefer=[0.5, 0.25, 1]", 0, 1.5),  # the one preferred is too large
    ],
)
def test_the_option_that_is_preferred_is_taken(
    agent: str, prefer: str, taken: int, value: float
) -> None:
    """Of those that fit the one of most worth, of equal worth the one written first.

    The size is that of the option written first, so the value is too, times the worth.
    """
    cluster = a_cluster().horizon(20).machines("m", 2, cpu=1).build()
    first, second = "atom(<1 cpu>, 1, 1, 6, 6)", "atom(<1 cpu>, 2, 2, 4, 8)"
    large = "atom(<1 cpu>, 2, 2, 8, 16)"
    blocks = WorkloadLine("b", "window(atom(<1 cpu>, 2, 2, 14, 28), 0, 14)", weight=1.0, priority=1)
    text = f"window(any({first}, {second}, {large}{prefer}), 0, 20)"
    work = compile_workload([blocks, WorkloadLine("r", text)], cluster)
    document = plan_workload(cluster, work, agent_named(agent))
    [held] = [one for one in document.reservations if one["id"] == "r"]
    assert held["choices"] == {"0": taken}
    assert document.metrics["value"] == pytest.approx((14.0 + value) * 2 / 3600)
    assert validate(document.to_json()) == []


@pytest.mark.parametrize("same_offset", ["true", "false"])
@pytest.mark.parametrize("agent", ["gree", "milp", "exact"])
def test_the_runs_of_a_recurrence_add_up_their_preferences(agent: str, same_offset: str) -> None:
    """Four runs that each lose half of their worth are worth half, not a sixteenth."""
    cluster = a_cluster().horizon(40).machines("m", 2, cpu=1).build()
    choice = "any(atom(<1 cpu>, 2, 2, 3, 12), atom(<1 cpu>, 1, 1, 2, 2), prefer=[1, 0.5])"
    runs = f"every(10, window({choice}, 0, 3), times=4, anchor=0, same_offset={same_offset})"
    lines = [
        WorkloadLine("runs", runs),
        WorkloadLine("small", "window(atom(<1 cpu>, 2, 2, 2, 4), 0, 3)"),
    ]
    document = plan_workload(cluster, compile_workload(lines, cluster), agent_named(agent))
    assert [one["id"] for one in document.reservations] == ["runs"]
    assert document.metrics["value"] == pytest.approx(4 * 12 / 2 / 3600)
    assert validate(document.to_json()) == []
