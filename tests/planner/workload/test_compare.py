"""Agents side by side."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from planner.agent import Agent, Limits
from planner.metrics import Metrics
from planner.placement import Code, PlacementResult
from planner.validation.validate import validate
from planner.workload.compare import compare, relative_to
from service.cli.compare import comparison_page
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
        assert run.document is not None
        assert run.metrics is not None
        assert validate(run.document.to_json()) == []
        assert run.metrics.requests == 12


def test_the_baseline_relates_to_itself_as_one() -> None:
    """Every metric that is not 0 is 1, and there are no differences to show."""
    run = compare(CLUSTER, WORK, ["gree", "gree-l"]).run("gree")
    assert {value for value in run.relative.values() if value is not None} == {1.0}
    assert run.differences is None


def test_differences_are_reported_for_each_request() -> None:
    """GREE-L is flatter, so something moved, and what is the same is counted."""
    run = compare(CLUSTER, WORK, ["gree", "gree-l"]).run("gree-l")
    assert run.differences is not None
    assert run.differences.same + len(run.differences.requests) == 12
    assert run.differences.requests
    base = compare(CLUSTER, WORK, ["gree"]).run("gree").metrics
    assert run.metrics is not None
    assert base is not None
    assert run.metrics.falls < base.falls


def test_relative_is_left_out_where_it_has_no_meaning() -> None:
    """Nothing divides by nothing."""
    base = Metrics(1.0, None, 0, 3, 0, 0, None, 0.0)
    other = Metrics(1.0, 0.5, 2, 3, 8, 1, 1.5, 2.0)
    assert set(relative_to(base, other).values()) == {None}
    assert relative_to(other, other)["falls"] == 1.0


def test_a_comparison_is_plain_json() -> None:
    """Reports are built from it."""
    plain = json.loads(json.dumps(compare(CLUSTER, WORK, ["gree", "gree-l"]).to_json()))
    assert plain["baseline"] == "gree"
    assert [one["agent"] for one in plain["agents"]] == ["gree", "gree-l"]


def test_the_least_bound_names_the_agent_that_proved_its_plan() -> None:
    """A quick bound alongside a greedy plan may be as low; who searched and proved it is named."""
    comparison = compare(CLUSTER, WORK, ["gree", "exact"])
    assert comparison.run("exact").status == "optimal"
    assert comparison.run("gree").metrics.bound == comparison.run("exact").metrics.bound  # type: ignore[union-attr]
    assert comparison.to_json()["bound_by"] == "exact"
    assert compare(CLUSTER, WORK, ["gree"]).bound_by == "gree"


@pytest.mark.parametrize("agents", [[], ["gree", "gree"], ["gre"]])
def test_agents_are_named_once_and_known(agents: list[str]) -> None:
    """Misuse is an error that says so."""
    with pytest.raises(ValueError, match="agent"):
        compare(CLUSTER, WORK, agents)


def test_an_agent_that_took_no_part_is_not_found() -> None:
    """KeyError, as for any mapping."""
    with pytest.raises(KeyError):
        compare(CLUSTER, WORK, ["gree"]).run("exact")


class Broken:
    """An agent that breaks."""

    name = "broken"

    def plan(self, requests: object, view: object, limits: object) -> list[PlacementResult]:
        """Fail, as a fault of ours would."""
        raise RuntimeError("no such thing")


@pytest.mark.parametrize("agents", [["gree", Broken(), "gree-l"], [Broken(), "gree-l"]])
def test_an_agent_that_breaks_is_a_row(agents: list[str | Agent]) -> None:
    """The others are planned nevertheless, also when it was to be the baseline."""
    comparison = compare(CLUSTER, WORK, agents)
    broken, good = comparison.run("broken"), comparison.run("gree-l")
    assert (broken.status, broken.metrics) == ("failed", None)
    assert "RuntimeError: no such thing" in broken.detail
    assert good.metrics is not None
    assert (good.differences is None) == (comparison.baseline == "broken")
    assert json.loads(json.dumps(comparison.to_json()))["agents"]
    assert "no plan" in comparison_page(comparison, "x")


def test_a_stop_leaves_out_the_agents_whose_turn_has_not_come() -> None:
    """The agent at work ends with its best; those after it are rows that say `not_run`."""
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 1

    comparison = compare(CLUSTER, WORK, ["gree", "milp", "gree-l"], Limits(stop=stop))
    assert [run.status for run in comparison.runs][1:] == ["not_run", "not_run"]
    assert comparison.runs[0].metrics is not None


def test_limits_are_for_each_agent() -> None:
    """`times` gives one agent its own; the rest keep the common one."""
    seen: dict[str, float | None] = {}

    class Watching:
        def __init__(self, name: str) -> None:
            self.name = name

        def plan(self, requests: list[Any], view: Any, limits: Limits) -> list[PlacementResult]:
            seen[self.name] = limits.time_s
            return [PlacementResult(Code.CAPACITY, "no") for _ in requests]

    agents: list[str | Agent] = [Watching("a"), Watching("b")]
    compare(CLUSTER, WORK, agents, Limits(time_s=3.0), times={"b": 9.0})
    assert seen == {"a": 3.0, "b": 9.0}


def test_disagreements_are_the_requests_only_some_accept() -> None:
    """Crowded, the agents part; what all accept or all refuse is not listed."""
    tight = a_cluster().horizon(40).machines("m", 2, cpu=1).build()
    work = a_workload(
        tight,
        *(
            a_request(f"r{n}", f"window(atom(<1 cpu>, 1, 2, {3 + n}, {20 + 2 * n}), 0, {20 + n})")
            for n in range(6)
        ),
    )
    comparison = compare(tight, work, ["gree", "gree-l", "milp"], Limits(work=100))
    for one in comparison.disagreements():
        assert len({answer == "accepted" for answer in one.answers}) == 2
    accepted = [
        {entry["id"] for entry in run.document.to_json()["reservations"]}
        for run in comparison.runs
        if run.document is not None
    ]
    apart = set.union(*accepted) - set.intersection(*accepted)
    assert {one.id for one in comparison.disagreements()} == apart


def test_a_page_says_what_is_best_and_draws_every_plan() -> None:
    """In short, metrics with gap and bound, skylines in one order of colours, differences."""
    page = comparison_page(compare(CLUSTER, WORK, ["gree", "milp"], Limits(time_s=1.0)), "a & b")
    for text in (
        "a &amp; b",
        "In short",
        "No plan has more value",
        "than gree",
        "<svg",
        "From gree to milp",
    ):
        assert text in page
    assert page.count("<svg") == 2


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.00042, "420 µs"), (0.0042, "4.2 ms"), (0.042, "42 ms"), (4.2, "4.2 s")],
)
def test_a_page_says_how_long_in_a_unit_that_shows_it(seconds: float, told: str) -> None:
    """An agent of half a millisecond did not take 0 ms."""
    ticks = (seconds * number for number in count())
    page = comparison_page(compare(CLUSTER, WORK, ["gree"], timer=lambda: next(ticks)), "page")
    assert f", in {told}." in page
