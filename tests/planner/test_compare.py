"""Agents side by side."""

from __future__ import annotations

import json

import pytest

from planner.compare import compare, relative_to
from planner.metrics import Metrics
from planner.validator import validate
from tests.builders import a_cluster, a_request, a_workload

CLUSTER = a_cluster().horizon(60).machines("m", 4, cpu=1).build()
WORK = a_workload(
    CLUSTER,
    *(
        a_request(
            f"r{n}", f"window(atom(<1 cpu>, 1, {1 + n % 4}, 3, {6 * (1 + n % 4)}), 0, {40 + n})"
        )
        for n in range(12)
    ),
)


def test_each_agent_plans_the_same_workload_validly() -> None:
    """One run an agent, in the order asked, gree the baseline wherever it stands."""
    comparison = compare(CLUSTER, WORK, ["gree-l", "gree", "aligned"])
    assert [run.agent for run in comparison.runs] == ["gree-l", "gree", "aligned"]
    assert comparison.baseline == "gree"
    for run in comparison.runs:
        assert validate(run.document.to_json()) == []
        assert run.metrics.requests == 12


def test_the_baseline_relates_to_itself_as_one() -> None:
    """Every metric that is not 0 is 1, and there are no differences to show."""
    run = compare(CLUSTER, WORK, ["gree", "gree-l"]).run("gree")
    assert {value for value in run.relative.values() if value is not None} == {1.0}
    assert run.differences is None


def test_differences_are_told_for_each_request() -> None:
    """GREE-L is flatter, so something moved, and what is the same is counted."""
    run = compare(CLUSTER, WORK, ["gree", "gree-l"]).run("gree-l")
    assert run.differences is not None
    assert run.differences.same + len(run.differences.requests) == 12
    assert run.differences.requests
    assert run.metrics.preemption < compare(CLUSTER, WORK, ["gree"]).run("gree").metrics.preemption


def test_relative_is_left_out_where_it_has_no_meaning() -> None:
    """Nothing divides by nothing."""
    base = Metrics(1.0, None, 0, 3, 0, 0, None, 0.0)
    other = Metrics(1.0, 0.5, 2, 3, 8, 1, 1.5, 2.0)
    assert set(relative_to(base, other).values()) == {None}
    assert relative_to(other, other)["preemption"] == 1.0


def test_a_comparison_is_plain_json() -> None:
    """Reports are built from it."""
    plain = json.loads(json.dumps(compare(CLUSTER, WORK, ["gree", "gree-l"]).to_json()))
    assert plain["baseline"] == "gree"
    assert [one["agent"] for one in plain["agents"]] == ["gree", "gree-l"]


@pytest.mark.parametrize("agents", [[], ["gree", "gree"], ["gre"]])
def test_agents_are_named_once_and_known(agents: list[str]) -> None:
    """Misuse is an error that says so."""
    with pytest.raises(ValueError, match="agent"):
        compare(CLUSTER, WORK, agents)


def test_an_agent_that_took_no_part_is_not_found() -> None:
    """KeyError, as for any mapping."""
    with pytest.raises(KeyError):
        compare(CLUSTER, WORK, ["gree"]).run("exact")
