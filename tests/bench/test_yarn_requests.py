"""YARN's thousand requests: the generator is Java's, and the stage becomes one atom."""

from __future__ import annotations

from bench.cases.planning.yarn_stress import container_hours, stress_cluster, stress_workload
from bench.workloads.yarn_requests import JavaRandom, stage_request


def test_the_generator_is_the_documented_one() -> None:
    """Seed 42 gives Java's first words, -1170105035 and 234785527, and what is below a bound."""
    draw = JavaRandom(42)
    assert [draw._next(32), draw._next(32)] == [2**32 - 1_170_105_035, 234_785_527]
    draw = JavaRandom(42)
    assert [draw.below(10), draw.below(10)] == [0, 3]
    assert JavaRandom(42).below(1 << 4) == (2**32 - 1_170_105_035) >> 28


def test_stages_are_drawn_within_the_bounds_of_the_test() -> None:
    """Arrival within 12 h, deadline within 24 h of it, gangs of 1-9, durations within 2 h."""
    for index in range(200):
        stage = stage_request(index)
        assert 0 <= stage.arrival_ms < 12 * 3_600_000
        assert 0 <= stage.deadline_ms - stage.arrival_ms < 24 * 3_600_000
        assert 1 <= stage.gang <= 9
        assert stage.parallel % stage.gang == 0
        assert 1 <= stage.parallel // stage.gang <= 1000
        assert 0 <= stage.duration_ms < 2 * 3_600_000


def test_container_hours_are_those_of_the_stage() -> None:
    """Hours of a compiled request are parallel x duration, up to rounding it to a second."""
    workload = stress_workload(stress_cluster(), 20)
    for request in workload.requests:
        stage = stage_request(int(request.id[1:]))
        hours = stage.parallel * stage.duration_ms / 3_600_000
        assert abs(container_hours([request]) - hours) <= stage.parallel / 3600
