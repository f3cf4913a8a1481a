"""How many machines were lost at once, by the outages that say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.cluster.calendar import WINDOW_MS, lost_at_once, lost_now
from planner.cluster.cluster import Outage
from planner.files import cluster_from_json

CLUSTER = cluster_from_json(
    {
        "step": 1,
        "horizon": 3600,
        "machines": [{"name": name, "count": 9, "resources": {"cpu": 1}} for name in ("a", "b")],
    },
    "the test",
)


def _lost(start_s: int, end_s: int, *indices: int, kind: str = "loss") -> Outage:
    return Outage("a", indices, start_s * 1000, end_s * 1000, kind)


@pytest.mark.parametrize(
    ("outages", "share", "most"),
    [
        ([], 0.99, 0),
        ([_lost(0, 10, 0)], 0.9, 0),  # for a tenth of a hundred seconds
        ([_lost(0, 11, 0)], 0.9, 1),
        ([_lost(0, 11, 0)], 0, 0),
        ([_lost(0, 5, 0), _lost(50, 55, 1)], 0.9, 0),  # one at a time
        ([_lost(0, 15, 0), _lost(4, 15, 1)], 0.9, 2),
        ([_lost(0, 30, 0), _lost(4, 12, 1)], 0.9, 1),
        ([_lost(0, 15, 0), _lost(4, 15, 0)], 0.9, 1),  # the same machine twice
        ([_lost(0, 1, 0, 1, 2)], 1, 3),
        ([_lost(99, 9999, 0)], 1, 1),  # it continues
        ([_lost(0, 99, 0, kind="maintenance")], 1, 0),
    ],
)
def test_what_was_lost_at_once_for_longer_than_the_rest_of_the_time(
    outages: list[Outage], share: float, most: int
) -> None:
    """Of the hundred seconds since the origin."""
    cluster = replace(CLUSTER, outages=tuple(outages))
    assert lost_at_once(cluster, "a", 100_000, share) == most
    assert lost_at_once(cluster, "b", 100_000, share) == 0


def test_what_was_lost_long_ago_is_forgotten() -> None:
    """Thirty days are remembered."""
    cluster = replace(CLUSTER, outages=(_lost(0, 100, 0),))
    assert lost_at_once(cluster, "a", WINDOW_MS + 99_000, 1) == 1
    assert lost_at_once(cluster, "a", WINDOW_MS + 100_000, 1) == 0


def test_machines_are_lost_from_begin_to_end() -> None:
    """Those of one group."""
    cluster = replace(CLUSTER, outages=(_lost(10, 20, 0, 3),))
    assert [lost_now(cluster, "a", at_ms) for at_ms in (9_999, 10_000, 20_000)] == [
        frozenset(),
        frozenset({0, 3}),
        frozenset(),
    ]
