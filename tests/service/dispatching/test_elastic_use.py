"""Cores of elastic components over time."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from service.dispatching.records import MOST_STEPS, ElasticUse


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 8)), max_size=40), st.integers(0, 900))
def test_the_use_of_two_parts_is_that_of_the_whole(
    changes: list[tuple[int, int]], middle: int
) -> None:
    """The steps add up to what a count millisecond by millisecond says."""
    use, now, counted, cores = ElasticUse(), 0, [], 0
    for length, next_cores in changes:
        counted += [cores] * length
        now, cores = now + length, next_cores
        use.observe(now, 1000 * cores)
    end = 2100
    counted += [cores] * (end - now)
    assert use.core_ms(0, end) == sum(counted)
    assert use.core_ms(0, middle) == sum(counted[:middle])
    assert use.core_ms(middle, end) == sum(counted[middle:])
    assert msgspec.json.decode(msgspec.json.encode(use), type=ElasticUse) == use


def test_old_steps_are_merged_without_a_change_of_the_total() -> None:
    use = ElasticUse()
    for at in range(0, 4 * MOST_STEPS, 2):
        use.observe(at, 1000 * (1 + at % 4))
    assert len(use.elastic) == MOST_STEPS
    expected = sum(2 * (1 + at % 4) for at in range(0, 4 * MOST_STEPS, 2))
    assert abs(use.core_ms(0, 4 * MOST_STEPS) - expected) < 1
