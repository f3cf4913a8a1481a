"""The quick bound: never below the best plan, at most the load, and the same each time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.workloads.exact_shapes import lumpy
from planner.agent import Limits, total_requested_value
from planner.agents import agent_named
from planner.agents import quick_bound as quick
from planner.agents.exact.problem import F64
from planner.agents.quick_bound import asked_between, least_use, load_bound, quick_bound
from planner.files import WorkloadLine, cluster_from_json
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import score_of, value_asked
from planner.view import PlanView
from planner.workload.compile import compile_workload
from tests.builders import a_request
from tests.examples import some_of
from tests.planner.agents.exact.prices import LAWS, PATIENT, ROUNDING
from tests.planner.agents.exact.sets import crowded, small
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import CAPACITY, CLUSTER, HORIZON, tiny_requests
from tests.workload_strategies import clusters, workloads


def _load(requests: list[Request], view: PlanView) -> float:
    return load_bound(requests, _values(requests, view), view)


def _values(requests: list[Request], view: PlanView) -> F64:
    return np.array([value_asked(one, view.reference) for one in requests])


@pytest.mark.parametrize("seed", some_of(range(60), 15))
def test_neither_bound_is_below_the_best_plan(seed: int) -> None:
    """Of load alone and of prices too, by full enumeration of tiny sets."""
    requests = tiny_requests(seed)
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    best = best_value(requests, CAPACITY, HORIZON)
    assert _load(requests, view) >= best - ROUNDING
    assert quick_bound(requests, view).value >= best - ROUNDING


@settings(max_examples=60, suppress_health_check=PATIENT)
@given(cluster=clusters(), lines=workloads())
def test_no_greedy_plan_is_worth_more(cluster: object, lines: object) -> None:
    """On clusters with kinds of machines, labels, quotas and outages, with any form of request."""
    requests = list(compile_workload(lines, cluster).requests)  # type: ignore[arg-type]
    if not requests:
        return
    view = Plan(cluster, requests[0].graph.grid).view()  # type: ignore[arg-type]
    placed = agent_named("gree-l").plan(requests, view, Limits())
    value = score_of(requests, placed, view.reference)[0]
    asked = total_requested_value(requests, view.reference)
    tolerance = 1e-9 * asked + ROUNDING
    assert value <= _load(requests, view) + tolerance
    assert value <= quick_bound(requests, view).value + tolerance <= asked + 3 * tolerance


@LAWS
@given(
    begin=st.integers(0, 40),
    minutes=st.integers(1, 40),
    limit=st.sampled_from([0, 1, 2, 5, 10**9]),
    works=st.lists(st.integers(1, 60), min_size=1, max_size=6),
)
def test_no_plan_beats_the_bound_under_a_quota_at_times_of_day(
    begin: int, minutes: int, limit: int, works: list[int]
) -> None:
    """However long the quota does not apply, and however large it is."""
    cluster = cluster_from_json(
        {
            "step": "60s",
            "horizon": "384m",
            "origin": "2026-03-28T12:00:00Z",
            "machines": [{"name": "b", "count": 1, "resources": {"cpu": 4}}],
            "policies": [
                {
                    "type": "quota",
                    "limit": {"cpu": limit},
                    "from": f"12:{begin:02}",
                    "to": f"{12 + (begin + minutes) // 60}:{(begin + minutes) % 60:02}",
                }
            ],
        }
    )
    lines = [
        WorkloadLine(f"r{work}", f"window(atom(<1 cpu>,1,4,1m,{work}m),0,{60 + work * 5}m)")
        for work in sorted(set(works))
    ]
    requests = list(compile_workload(lines, cluster).requests)
    view = Plan(cluster, cluster.grid()).view()
    placed = agent_named("gree-l").plan(requests, view, Limits())
    value = score_of(requests, placed, view.reference)[0]
    assert value <= min(_load(requests, view), quick_bound(requests, view, value).value) + 1e-6
    assert view.free.max() <= 4000  # so that no sum over 384 steps can overflow


@pytest.mark.parametrize("kind", ["malleable", "gangs", "workflows", "mixed"])
def test_a_crowded_set_is_bounded_by_what_the_machines_can_do(kind: str) -> None:
    """The load of a crowded set leaves out what the machines cannot do."""
    requests, view = crowded(kind)
    asked = total_requested_value(requests, view.reference)
    assert _load(requests, view) <= 0.9 * asked
    assert quick_bound(requests, view).value <= _load(requests, view) * (1 + 1e-8)


def test_prices_bound_a_lumpy_set_lower_than_its_load() -> None:
    """Where pieces are large, prices see what amounts do not."""
    cluster, requests = lumpy(1, 1.2)
    view = Plan(cluster, cluster.grid()).view()
    found = quick_bound(requests, view)
    assert found.proof == "columns"
    assert found.value < 0.97 * _load(requests, view)


def test_intervals_that_do_not_overlap_lose_apart_from_each_other() -> None:
    """Two crowded hours with an idle one between: each loses half, and both losses count."""
    texts = [
        f"window(atom(<1 cpu>, 4, 4, 0.002, 0.008), {begin}, {end})"
        for begin, end in ((0, 0.002), (0.004, 0.006))
    ]
    requests = [
        a_request(f"{name}{number}", text).on(CLUSTER)
        for number, text in enumerate(texts)
        for name in "ab"
    ]
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    asked = total_requested_value(requests, view.reference)
    assert _load(requests, view) == pytest.approx(asked / 2)


def test_an_option_counts_by_the_least_that_any_of_them_takes() -> None:
    """`any` takes of each row no more than its smallest option."""
    text = "any(atom(<1 cpu>, 4, 4, 0.002, 0.008), atom(<1 cpu>, 1, 1, 0.002, 0.002))"
    request = a_request("a", f"window({text}, 0, 0.006)").on(CLUSTER)
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    alone = a_request("b", "window(atom(<1 cpu>, 1, 1, 0.002, 0.002), 0, 0.006)").on(CLUSTER)
    assert least_use([request], view).tolist() == least_use([alone], view).tolist()


def test_a_plan_that_holds_everything_needs_no_search() -> None:
    """The bound is then what is asked, by its plainest proof."""
    requests, view = small("gangs")
    asked = total_requested_value(requests, view.reference)
    assert quick_bound(requests, view, asked) == (asked, "all")


def test_equal_sets_get_equal_bounds() -> None:
    """The work is counted, not timed."""
    requests, view = small("workflows")
    assert quick_bound(requests, view) == quick_bound(requests, view)


def test_a_set_whose_prices_take_too_long_is_bounded_by_its_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is built where the prediction is above the budget."""
    requests, view = crowded("gangs")
    monkeypatch.setattr(quick, "BUDGET_S", 1e-3)
    found = quick_bound(requests, view)
    assert found.proof == "load"
    assert found.value == pytest.approx(_load(requests, view))


def test_what_is_asked_between_two_marks_is_of_the_windows_between_them() -> None:
    """So a row is looked at closer only where more is asked than is free."""
    marks = np.array([0, 2, 5, 9])
    spans = np.array([[0, 2], [1, 5], [2, 4], [2, 9], [6, 7], [9, 9]])
    amount = np.array([1.0, 10.0, 100.0, 1e3, 1e4, 1e5])
    asked = asked_between(amount, spans, marks)
    for first in range(len(marks)):
        for last in range(first + 1, len(marks)):
            inside = (spans[:, 0] >= marks[first]) & (spans[:, 1] <= marks[last])
            assert asked[first, last] == amount[inside].sum()
