"""Sentences of refusals: amounts with units, times that people can read."""

from __future__ import annotations

import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.explain import area_text, free_text, time_text
from rdl.time_grid import TimeGrid
from tests.builders import ClusterBuilder, a_cluster, a_plan, a_request

#: Twelve bundles from minute 30 to 31.
HALF_HOUR = "window(atom({bundle}, 12, 12, 1m, 12m), 30m, 31m)"


def refusal_of(cluster: ClusterBuilder, text: str, standing: str | None = None) -> str:
    """Return the sentence that gree refuses a request with, on an empty Plan or beside another."""
    built = cluster.build()
    plan = a_plan(built)
    if standing is not None:
        plan = plan.holding(a_request("standing", standing).on(built))
    request = a_request("r", text).on(built)
    result = agent_named("gree").plan([request], plan.build().view(), Limits())[0]
    assert not result.placed
    return result.detail


def minutes() -> ClusterBuilder:
    """Four machines of 4 cores and 8 GiB, minutes, an hour."""
    return a_cluster().step("1m").horizon("1h").machines("m", 4, cpu=4, memory="8 GiB")


def test_a_shortage_says_how_much_of_what_and_when() -> None:
    """Cores are cores and not millicores; a time is an offset where there is no calendar."""
    asked = "window(atom(<1500m cpu>, 4, 4, 1h, 4h), 0, 1h)"
    sentence = refusal_of(minutes(), asked, HALF_HOUR.format(bundle="<1 cpu>"))
    assert sentence == (
        "no place for atom 0: at 30m, where least is free, 4 cpu is left; "
        "at least 6 cpu is needed at once"
    )


def test_times_are_dates_where_there_is_a_calendar() -> None:
    """With an origin the instant is named as calendars do; memory has its unit."""
    cluster = minutes().origin("2026-01-05T09:00:00Z")
    asked = "window(all(atom(<4 GiB memory>, 4, 4, 1h, 4h)), 0, 1h)"
    sentence = refusal_of(cluster, asked, HALF_HOUR.format(bundle="<2 GiB memory>"))
    assert sentence == (
        "no place for atom 0.0: at 2026-01-05T09:30:00Z, where least is free, 8 GiB memory is "
        "left; at least 16 GiB memory is needed at once"
    )


def test_a_policy_is_named() -> None:
    """A quota refuses in the same words and says which it is."""
    cluster = minutes().policy("quota", name="small", tenant="*", limit={"cpu": 2})
    sentence = refusal_of(cluster, "window(atom(<1 cpu>, 3, 3, 1h, 3h), 0, 1h)")
    assert "2 cpu is left within policy small; at least 3 cpu is needed" in sentence


def test_an_average_is_told_in_hours() -> None:
    """A quarter of 16 cores for an hour is 4 core-hours."""
    cluster = minutes().policy(
        "capacity_over_time", name="fair", tenant="*", average=0.25, window="1h"
    )
    sentence = refusal_of(cluster, "window(atom(<1 cpu>, 5, 5, 1h, 5h), 0, 1h)")
    assert "policy fair leaves 4 cpu-hours in its window that starts" in sentence
    assert sentence.endswith("all of the work takes 5 cpu-hours")


@pytest.mark.parametrize(
    ("resource", "free", "text"),
    [
        ("cpu", 2500, "2500m cpu is left"),
        ("gpu", 0, "no gpu is left"),
        ("cpu", -2000, "no cpu is left (2 cpu too much is taken)"),
    ],
)
def test_what_is_left(resource: str, free: int, text: str) -> None:
    """Nothing is "no", and what is over-committed says by how much."""
    assert free_text(resource, free) == text


@pytest.mark.parametrize(
    ("resource", "area", "text"),
    [
        ("memory", 3 * 1024 * 60, "3 GiB-hours of memory"),
        ("gpu", 90, "1.5 gpu-hours"),
        ("cpu", 60_000_000 * 60, "60,000 cpu-hours"),
    ],
)
def test_amounts_over_time(resource: str, area: int, text: str) -> None:
    """Amount-steps at steps of a minute become amount-hours."""
    assert area_text(resource, area, 60_000) == text


def test_a_time_before_the_origin() -> None:
    """A sliding window may start before the plan does."""
    assert time_text(-90, TimeGrid(1000, 10)) == "1m30s before the origin"
