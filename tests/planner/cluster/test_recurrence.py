"""Maintenance that recurs: when it is, and that the Plan and the validator agree on it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.agents import agent_named
from planner.capacity.capacity_rows import CapacityRows
from planner.capacity.profile import FreeProfile
from planner.cluster.cluster import FOREVER_MS, Cluster, ClusterError, MachineGroup, Outage
from planner.cluster.cost import excesses
from planner.cluster.recurrence import Recurrence
from planner.files import FileError, cluster_from_json, cluster_to_json
from planner.files.workload_file import WorkloadLine
from planner.machines import room as room_module
from planner.machines.room import MachineRoom
from planner.promise import PromiseLevel
from planner.validation.capacity import away_steps
from planner.validation.validate import validate
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_from_nothing
from rdl.expressions import MonthDay
from rdl.resources import Resources
from tests.planner.machines.model import leaves
from tests.planner.plan.plan_json import plan_json

HOUR = 3_600_000
DAY = 24 * HOUR
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia", "Asia/Kathmandu")
ORIGINS = tuple(
    datetime(year, month, day, hour, tzinfo=UTC)
    for year, month, day, hour in ((2026, 3, 27, 0), (2026, 10, 22, 7), (2011, 12, 26, 3))
)


@st.composite
def recurring(draw: st.DrawFn, origin: datetime | None) -> Outage:
    """Outages of machine 1 that recur, short and long, some until a time and on some dates."""
    days = draw(st.sampled_from([1, 1, 1, 2, 7]))
    start = draw(st.integers(0, 30)) * HOUR + draw(st.sampled_from([0, 17 * 60_000]))
    length = draw(st.integers(1, 24 * days)) * HOUR // draw(st.sampled_from([1, 4]))
    rule = Recurrence(days, zone=draw(st.sampled_from(ZONES)))
    if draw(st.booleans()):
        rule = replace(rule, until_ms=start + draw(st.integers(1, 12 * 24)) * HOUR)
    if days == 1 and origin is not None and draw(st.booleans()):
        weekdays = draw(st.frozensets(st.integers(0, 6), min_size=1, max_size=4))
        off = [origin.date() + timedelta(days=draw(st.integers(0, 9)))]
        rule = replace(rule, weekdays=weekdays, without=tuple(off))
    elif days == 1 and origin is not None and draw(st.booleans()):
        number = draw(st.sampled_from([1, 2, 4, -1, 28, 31]))
        weekday = draw(st.integers(0, 6)) if number < 5 and draw(st.booleans()) else None
        day = draw(st.sampled_from([None, MonthDay(number, weekday)]))
        rule = replace(rule, days=0, months=draw(st.integers(1, 3)), day=day)
    return Outage("m", (1,), start, start + length, recurs=rule)


def _cluster(outage: Outage, origin: datetime | None, days: int = 10) -> Cluster:
    group = MachineGroup("m", 3, Resources.of({"cpu": 2}))
    return Cluster(HOUR, days * DAY, (group,), origin, outages=(outage,))


@given(st.data())
def test_occurrences_are_those_of_a_walk_over_dates(data: st.DataObject) -> None:
    """Any part of them, asked for alone, is what the validator's walk from the first date finds."""
    origin = data.draw(st.sampled_from([None, *ORIGINS]))
    cluster = _cluster(data.draw(recurring(origin)), origin, 100)
    walked = [(start, end) for _, start, end in away_steps(cluster, cluster.grid())]
    low = data.draw(st.integers(0, 99 * 24))
    high = data.draw(st.integers(low + 1, 100 * 24))
    found = [
        (one.start_ms // HOUR, -(-one.end_ms // HOUR))
        for one in cluster.outages_between(low * HOUR, high * HOUR)
    ]
    assert found == [(a, b) for a, b in walked if a < high and b > low and a < b]


@given(st.data())
def test_a_rolling_plan_is_one_made_for_its_present_horizon(data: st.DataObject) -> None:
    """Totals and machines, as trees and as lists, see occurrences as the horizon moves."""
    origin = data.draw(st.sampled_from([None, *ORIGINS]))
    cluster = _cluster(data.draw(recurring(origin)), origin, 3)
    as_lists = data.draw(st.booleans())
    kept = room_module.ROOM_BYTES
    room_module.ROOM_BYTES = 0 if as_lists else kept
    try:
        grid, first = cluster.grid(), 0
        room, profile = (
            MachineRoom(cluster, grid, 0),
            FreeProfile(CapacityRows(cluster), grid, 0),
        )
        for _ in range(data.draw(st.integers(1, 4))):
            first = data.draw(st.integers(first, grid.horizon - 1))
            grid = grid.with_horizon(grid.horizon + data.draw(st.sampled_from([0, 1, 30, 100])))
            room.advance(grid, first)
            profile = profile.roll(grid, first)
        fresh = MachineRoom(cluster, grid, first)
        assert np.array_equal(leaves(room), leaves(fresh))
        again = FreeProfile(CapacityRows(cluster), grid, first)
        again.fill()
        profile.fill()
        assert np.array_equal(profile.free, again.free)
    finally:
        room_module.ROOM_BYTES = kept


def test_the_first_tuesday_of_each_month() -> None:
    """C7 of the public cases; in Berlin, across the change to summer time."""
    rule = Recurrence(0, 1, "Europe/Berlin", day=MonthDay(1, 1))
    origin = datetime(2026, 1, 31, 23, tzinfo=UTC)
    outage = Outage("m", (0,), 2 * HOUR, 6 * HOUR, reason="switches", by="ann", recurs=rule)
    cluster = _cluster(outage, origin, 100)
    found = [
        (origin + timedelta(milliseconds=one.start_ms)).isoformat()
        for one in cluster.outages_between(0, 100 * DAY)
    ]
    assert found == [
        "2026-02-03T01:00:00+00:00",
        "2026-03-03T01:00:00+00:00",
        "2026-04-07T00:00:00+00:00",
        "2026-05-05T00:00:00+00:00",
    ]
    assert outage.over_ms == FOREVER_MS


def test_a_recurrence_at_the_end_of_the_calendar_is_only_later() -> None:
    """It has no occurrence in a plan of today."""
    rule = Recurrence(days=1, zone="Asia/Tokyo")
    origin = datetime(2026, 1, 1, tzinfo=UTC)
    far = (datetime(9999, 12, 31, 20, tzinfo=UTC) - origin) // timedelta(milliseconds=1)
    assert list(rule.spans((far, far + 60_000), origin, 0, 86_400_000)) == []


def test_a_time_that_clocks_skip_is_not_lost() -> None:
    """02:15 to 02:45 on the day that clocks go forward follows the gap, half an hour long."""
    origin = datetime(2026, 3, 26, 23, tzinfo=UTC)
    rule = Recurrence(1, zone="Europe/Berlin")
    half = Outage("m", (0,), 2 * HOUR + 900_000, 2 * HOUR + 2_700_000, recurs=rule)
    found = _cluster(half, origin).outages_between(0, 4 * DAY)
    assert [(one.end_ms - one.start_ms) // 60_000 for one in found] == [30, 30, 30, 30]
    assert found[2].start_ms == 2 * DAY + 2 * HOUR


@pytest.mark.parametrize("level", list(PromiseLevel))
@settings(max_examples=30)
@given(st.data())
def test_promises_keep_out_of_each_occurrence(level: PromiseLevel, data: st.DataObject) -> None:
    """Whatever agents place, the validator finds no machine promised while it is away."""
    origin = data.draw(st.sampled_from([None, *ORIGINS]))
    cluster = replace(_cluster(data.draw(recurring(origin)), origin, 6), promise=level)
    lines = [
        WorkloadLine(
            f"r{number}",
            f"window(atom(<2 cpu>, {height}, {height}, {lease}h, {height * lease}h), "
            f"{start}h, {start + lease + data.draw(st.integers(0, 30))}h)",
        )
        for number in range(4)
        for height, lease, start in [
            data.draw(st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(0, 90)))
        ]
    ]
    compiled = compile_workload(lines, cluster)
    agent = agent_named(data.draw(st.sampled_from(["gree", "earliest", "headroom"])))
    plan = plan_from_nothing(cluster, compiled, agent).plan
    assert validate(plan_json(plan), cluster=cluster, grid=plan.grid) == []


ENTRY = {
    "machines": "m",
    "count": 1,
    "start": 0,
    "end": "2h",
    "every": "1d",
    "days": ["tue", "fri"],
    "except": ["2026-12-01", "2026-12-29..2026-12-31"],
    "until": "90d",
    "zone": "Europe/Berlin",
    "reason": "switches",
    "by": "ann",
}


def _document(**changes: object) -> dict[str, object]:
    entry = {key: value for key, value in (ENTRY | changes).items() if value is not None}
    machines = [{"name": "m", "count": 2, "resources": {"cpu": 1}}]
    start = "2026-11-30T00:00:00Z"
    return {
        "step": "1h",
        "horizon": "1w",
        "origin": start,
        "machines": machines,
        "outages": [entry],
    }


def test_what_recurs_is_written_as_it_is_read() -> None:
    """Every word of it, ids included."""
    cluster = cluster_from_json(_document())
    rule = cluster.outages[0].recurs
    assert rule is not None
    assert rule.without == tuple(date(2026, 12, day) for day in (1, 29, 30, 31))
    assert (rule.days, rule.weekdays, rule.until_ms) == (1, frozenset([1, 4]), 90 * DAY)
    again = cluster_from_json(cluster_to_json(cluster))
    assert again == cluster
    assert again.outages[0].id == cluster.outages[0].id
    monthly = cluster_from_json(_document(every="1y", days=None, day="last fri"))
    assert monthly.outages[0].recurs == Recurrence(
        0, 12, "Europe/Berlin", 90 * DAY, day=MonthDay(-1, 4), without=rule.without
    )
    assert cluster_from_json(cluster_to_json(monthly)) == monthly


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"every": None, "days": None, "except": None, "until": None}, "zone"),
        ({"kind": "loss"}, "kind"),
        ({"every": "36h"}, "every"),
        ({"every": "1w"}, "days"),
        ({"day": 3}, "day"),
        ({"every": "1mo", "days": None, "day": "fifth tue"}, "day"),
        ({"every": "1mo", "days": None, "day": 32}, "day"),
        ({"every": "0mo", "days": None}, "every"),
        ({"end": "25h"}, "end"),
        ({"except": ["2026-02-30"]}, "except"),
        ({"zone": "Mars/Olympus"}, "zone"),
        ({"start": "1h", "until": "1h"}, "until"),
        ({"start": "1h", "until": 60}, "until"),
    ],
)
def test_a_recurrence_that_cannot_be_names_its_place(
    changes: dict[str, object], pointer: str
) -> None:
    """With the pointer of what is wrong."""
    with pytest.raises(FileError) as caught:
        cluster_from_json(_document(**changes))
    assert f"/outages/0/{pointer}" in [one.pointer for one in caught.value.problems]


def test_dates_need_an_origin() -> None:
    """Without one there is no Tuesday and no month; such a cluster is still costed."""
    for rule in (Recurrence(1, weekdays=frozenset([1])), Recurrence(0, 1)):
        cluster = _cluster(Outage("m", (0,), 0, HOUR, recurs=rule), None)
        assert excesses(cluster) == ()
        with pytest.raises(ClusterError, match="recurs on dates"):
            cluster.grid()
