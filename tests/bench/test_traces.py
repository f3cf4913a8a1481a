"""The days that benches plan: moved in time without changing what is asked."""

from __future__ import annotations

import pytest

from bench.cases.planning import greedy_quality, real_days
from bench.workloads.generator import KINDS
from bench.workloads.traces import SKIPPED, VARIABLE, Day, day_of, traces_folder
from planner.agents import agent_named
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_from_nothing
from service.importers.lines import Imported, TraceMachines, task_atom, window_text

POOL = TraceMachines(2, 32, 128)


def imported() -> Imported:
    """Return three jobs that want all of 64 containers within 60 s."""
    lines = tuple(
        {
            "id": f"job{n}",
            "tenant": "t",
            "submitted": 10 * n,
            "rdl": window_text(10 * n, 60, task_atom(64, 20, 64)),
        }
        for n in range(3)
    )
    return Imported(lines, 10, 60)


def test_without_the_variable_cases_skip_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder, or an empty name, is no failure: the case says what is missing."""
    for value in (None, ""):
        if value is None:
            monkeypatch.delenv(VARIABLE, raising=False)
        else:
            monkeypatch.setenv(VARIABLE, value)
        assert traces_folder() is None
        assert real_days.run(True)["figures"] is SKIPPED
    assert VARIABLE in str(SKIPPED["skipped"])


def test_a_moved_day_keeps_lengths_and_the_import() -> None:
    """Every window and the horizon move by the lead; submissions and the import itself do not."""
    source = imported()
    moved = day_of(POOL, source, lead_s=900)

    windows = [line["rdl"]["window"] for line in moved.raw]
    assert [(w["start"], w["end"]) for w in windows] == [(900, 960), (910, 960), (920, 960)]
    assert [line["submitted"] for line in moved.raw] == [0, 10, 20]
    assert moved.cluster.horizon_ms == 960_000
    assert source == imported()


def test_a_lead_is_whole_steps() -> None:
    """A lead between two steps would round windows differently from the trace."""
    with pytest.raises(ValueError, match="905 s is not a whole number of 10 s steps"):
        day_of(POOL, imported(), lead_s=905)


def test_a_moved_day_is_the_same_problem() -> None:
    """An agent accepts the same requests whether the day is moved or not."""

    def accepted(day: Day) -> list[bool]:
        workload = compile_workload(day.lines, day.cluster)
        planned = plan_from_nothing(day.cluster, workload, agent_named("gree-l"))
        return [result.placed for result in planned.results]

    assert accepted(day_of(POOL, imported())) == accepted(day_of(POOL, imported(), lead_s=900))


def test_misses_name_the_kind_and_the_limit() -> None:
    """A mean above its limit, or value below GREE's, is reported; what has no limit is not."""
    good = {name: [0.4, 0, 0, 0] for name in ("falls", "kernel_time", "over_least")}
    good["value"] = [1.0, 0, 0, 0]
    figures: dict[str, object] = dict.fromkeys(KINDS, good)
    assert greedy_quality.misses(figures) == []

    figures["malleable"] = good | {"over_least": [1.5, 0, 0, 0], "value": [0.9, 0, 0, 0]}
    figures["gangs"] = good | {"falls": [0.99, 0, 0, 0]}
    figures["mixed"] = good | {"over_least": [3.0, 0, 0, 0], "falls": [0.7, 0, 0, 0]}
    assert greedy_quality.misses(figures) == [
        "malleable: over_least 1.5 above 1.35",
        "malleable: value 0.9 below 1",
        "mixed: falls 0.7 above 0.65",
    ]


def test_the_least_falls_is_the_lowest_height_that_is_in_time() -> None:
    """64 tasks of two steps within six steps: 128 bundle-steps over 6, 22 bundles at least."""
    day = day_of(POOL, imported())
    workload = compile_workload(day.lines[:1], day.cluster)
    planned = plan_from_nothing(day.cluster, workload, agent_named("gree"))

    assert greedy_quality.least_falls(workload.requests, planned.results) == 22
    assert planned.metrics.falls >= 22
