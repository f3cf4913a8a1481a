"""The scheduled optimisations of a cluster file."""

from __future__ import annotations

from datetime import time
from typing import Any

import pytest

from planner.agents import AGENT_NAMES
from planner.cluster.optimization_schedule import OptimizationSchedule
from planner.files import FileError, cluster_from_json, cluster_to_json
from planner.files.schema import load_schema

_NIGHTLY: dict[str, Any] = {"name": "nightly", "at": "02:00"}


def _cluster(*schedules: dict[str, Any]) -> dict[str, Any]:
    return {
        "step": "60s",
        "horizon": "4h",
        "machines": [{"name": "plain", "count": 10, "resources": {"cpu": 1}}],
        "optimizations": list(schedules),
    }


def test_a_schedule_has_defaults() -> None:
    """A name and a time of day are enough."""
    (found,) = cluster_from_json(_cluster(_NIGHTLY)).optimizations
    assert found == OptimizationSchedule("nightly", time(2))


def test_every_word_is_read_and_written_back() -> None:
    """Nothing is left at its default."""
    weekly = {
        "name": "weekly", "at": "23:30", "days": ["mon", "fri"], "zone": "Europe/Paris",
        "time_limit": "30m", "frozen": "1h", "admit_refused": False, "solver": "exact",
        "apply_below": 0.1,
    }  # fmt: skip
    cluster = cluster_from_json(_cluster(_NIGHTLY, weekly))
    assert cluster.optimizations[1] == OptimizationSchedule(
        "weekly", time(23, 30), frozenset({0, 4}), "Europe/Paris", 1_800_000, 3_600_000, False,
        "exact", 0.1,
    )  # fmt: skip
    written = cluster_to_json(cluster)
    assert written["optimizations"][1] == weekly
    assert cluster_from_json(written) == cluster


@pytest.mark.parametrize(
    ("words", "pointer", "message"),
    [
        ({"at": "2 am"}, "/optimizations/0/at", "2 am"),
        ({"zone": "Europe/Pariss"}, "/optimizations/0/zone", "unknown time zone 'Europe/Pariss'"),
        ({"apply_below": 10}, "/optimizations/0/apply_below", "10"),
        ({"name": "Nightly run"}, "/optimizations/0/name", "Nightly run"),
        ({"solver": "gree"}, "/optimizations/0/solver", "gree"),
        ({"time_limit": "half an hour"}, "/optimizations/0/time_limit", "half an hour"),
    ],
)
def test_what_cannot_be_is_reported_with_its_place(
    words: dict[str, Any], pointer: str, message: str
) -> None:
    """The problem points at the word that is wrong."""
    with pytest.raises(FileError) as caught:
        cluster_from_json(_cluster({**_NIGHTLY, **words}))
    (problem,) = caught.value.problems
    assert problem.pointer == pointer
    assert message in problem.message


def test_two_of_one_name_are_refused() -> None:
    """Their optimisations could not be distinguished."""
    with pytest.raises(FileError, match="'nightly' is given twice"):
        cluster_from_json(_cluster(_NIGHTLY, _NIGHTLY))


def test_solvers_of_the_schema_are_agents() -> None:
    """Apart from `auto` and `none`."""
    properties = load_schema("cluster")["$defs"]["optimization"]["properties"]
    assert set(properties["solver"]["enum"]) - {"auto", "none"} <= set(AGENT_NAMES)
