"""The skylines of compared Plans: what they hold, in buckets that keep areas exact."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from planner.agent import Limits
from planner.files import cluster_from_json
from planner.files.workload_file import read_line
from planner.workload.compare import compare
from planner.workload.compile import compile_workload
from service.jobs.comparison import MOST_TENANTS, comparison_skylines

_CLUSTER = cluster_from_json(
    {
        "step": "60s",
        "horizon": "24h",
        "origin": "2026-01-05T00:00:00Z",
        "machines": [{"name": "plain", "count": 20, "resources": {"cpu": 2, "memory": "4 GiB"}}],
    }
)


def test_areas_are_exact_and_the_largest_tenants_stand_apart() -> None:
    """Each Plan holds the work that was asked; tenants beyond the most are one layer."""
    tenants = MOST_TENANTS + 3
    lines = [
        read_line(
            {
                "id": f"r{n}",
                "tenant": f"t{n:02d}",
                "rdl": f"window(atom(<500m cpu, 1 GiB memory>, 1, 2, 10m, {20 + n}m), 0, 20h)",
            },
            n + 1,
            datetime(2026, 1, 5, tzinfo=UTC),
        )
        for n in range(tenants)
    ]
    compared = compare(_CLUSTER, compile_workload(lines, _CLUSTER), ["gree", "earliest"], Limits())
    drawn = comparison_skylines(_CLUSTER, compared.runs)

    assert drawn["tenants"] == [f"t{n:02d}" for n in range(tenants - 1, 2, -1)] + [None]
    minutes = sum(20 + n for n in range(tenants))
    for agent in ("gree", "earliest"):
        for resource, each in (("cpu", 0.5), ("memory", 1024)):
            layers = drawn["agents"][agent][resource]
            assert len(layers) == len(drawn["tenants"])
            whole = (drawn["to"] - drawn["from"]) / 60
            last = whole - (len(layers[0]) - 1) * drawn["step"] / 60
            lengths = [drawn["step"] / 60] * (len(layers[0]) - 1) + [last]
            held = sum(a * b for layer in layers for a, b in zip(layer, lengths, strict=True))
            assert held == pytest.approx(minutes * each, rel=0.01)
    assert set(drawn["resources"]["cpu"]["capacity"]) == {40}


def test_nothing_held_is_an_empty_picture() -> None:
    """Where no agent has a Plan there are no resources and no layers."""
    drawn = comparison_skylines(_CLUSTER, [])
    assert (drawn["tenants"], drawn["resources"], drawn["agents"]) == ([], {}, {})
