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
    """Cores are cores and not millicores; a time is an offset if there is no calendar."""
    asked = "window(atom(<1500m cpu>, 4, 4, 1h, 4h), 0, 1h)"
    sentence = refusal_of(minutes(), asked, HALF_HOUR.format(bundle="<1 cpu>"))
    assert sentence == (
        "the request needs at least 6 cpu at once; 4 cpu is left at 30m from the origin, where "
        "least is free"
    )


def test_times_are_dates_where_there_is_a_calendar() -> None:
    """With an origin the instant is named as calendars do; memory has its unit."""
    cluster = minutes().origin("2026-01-05T09:00:00Z")
    asked = "window(all(atom(<4 GiB memory>, 4, 4, 1h, 4h)), 0, 1h)"
    sentence = refusal_of(cluster, asked, HALF_HOUR.format(bundle="<2 GiB memory>"))
    assert sentence == (
        "the request needs at least 16 GiB memory at once; 8 GiB memory is left at "
        "Mon 2026-01-05 09:30 (UTC), where least is free"
    )


def test_a_policy_is_named() -> None:
    """A quota refuses in the same words and says which it is."""
    cluster = minutes().policy("quota", name="small", tenant="*", limit={"cpu": 2})
    sentence = refusal_of(cluster, "window(atom(<1 cpu>, 3, 3, 1h, 3h), 0, 1h)")
    assert "at least 3 cpu at once; 2 cpu is left within policy small" in sentence


def test_an_average_is_reported_in_hours() -> None:
    """A quarter of 16 cores for an hour is 4 cpu-hours."""
    cluster = minutes().policy(
        "capacity_over_time", name="fair", tenant="*", average=0.25, window="1h"
    )
    sentence = refusal_of(cluster, "window(atom(<1 cpu>, 5, 5, 1h, 5h), 0, 1h)")
    assert sentence.startswith(
        "the request takes 5 cpu-hours; policy fair leaves 4 cpu-hours in its"
    )


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
    """A sliding window may start before the plan does, or with it."""
    assert time_text(0, TimeGrid(1000, 10)) == "the origin"
    assert time_text(-90, TimeGrid(1000, 10)) == "1m30s before the origin"


def on_sixteen_gpus(request: str, *, zone: str | None = None) -> str:
    """Return why a day with a maintenance of all GPUs from 17:12 UTC on refuses a request."""
    cluster = a_cluster().step("1m").horizon("1d").origin("2026-11-23T00:00:00Z")
    cluster = cluster.machines("gpu", 4, cpu=16, gpu=4)
    if zone is not None:
        cluster = cluster.zone(zone)
    held = (
        "all(window(atom(<1 gpu>, 16, 16, 1m, 16m), 985m, 986m), "
        "window(atom(<1 gpu>, 16, 16, 1m, 16m), 1032m, 1033m))"
    )
    return refusal_of(cluster, request, held)


def test_a_lease_too_long_says_the_longest_stretch_and_until_when() -> None:
    """The sentence has the stage's name, the amount, and the clock of the request's zone."""
    sentence = on_sixteen_gpus(
        "window(order(prep: atom(<1 cpu>, 1, 1, 1m, 1m), train: atom(<4 gpu>, 4, 4, 2h, 8h)), "
        '17:00, 20:00, zone="Europe/Berlin")'
    )
    assert sentence == (
        "train needs 16 gpu for 2h without a break; the longest free stretch is 1h47m, until "
        "Mon 2026-11-23 18:12 (Europe/Berlin), for lack of gpu"
    )


def test_the_cluster_says_the_zone_where_the_request_names_none() -> None:
    """The zone is said in brackets, whoever named it."""
    request = "window(atom(<4 gpu>, 4, 4, 1h, 4h), 980m, 1070m)"
    sentence = on_sixteen_gpus(request, zone="Asia/Tokyo")
    assert "until Tue 2026-11-24 02:12 (Asia/Tokyo)" in sentence
