"""Start delay by size: what is learnt, and what requests and rows become."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.entitlements.slots import ANYWHERE, ActiveSlot, SlotRows
from dispatch.entitlements.start_delay import (
    NO_DELAY,
    StartDelays,
    StartDelayTable,
    enlarge,
    size_class,
)
from planner.reservations.slots import NOWHERE
from rdl.resources import Resources
from rdl.text.formatter import format_expression
from rdl.text.parser import parse

SMALL = Resources.from_json({"memory": "8 GiB", "cpu": 1})
LARGE = Resources.from_json({"memory": "12 GiB", "cpu": 1})
HUGE = Resources.from_json({"memory": "64 GiB", "cpu": 1})


def _learnt(small_ms: int, large_ms: int) -> StartDelayTable:
    delays = StartDelays()
    for _ in range(20):
        delays.observe(SMALL, small_ms)
        delays.observe(LARGE, large_ms)
    return delays.table()


def test_only_what_is_larger_than_eight_gib_is_late() -> None:
    """Thirty seconds above 8 GiB, nothing up to it; what is larger still is as late."""
    table = _learnt(200, 30_000)
    assert table.delay_ms(SMALL) == 0
    assert table.delay_ms(LARGE) == 30_000
    assert table.delay_ms(HUGE) == 30_000
    assert size_class(SMALL)[1] + 1 == size_class(LARGE)[1]


def test_few_starts_say_nothing_and_old_ones_are_forgotten() -> None:
    """Below `least` starts no delay; after `window` quick ones the slow ones do not count."""
    delays = StartDelays(window=50, least=10)
    for _ in range(9):
        delays.observe(LARGE, 30_000)
    assert delays.table() == NO_DELAY
    for _ in range(10):
        delays.observe(LARGE, 30_000)
    before = delays.table()
    assert before.delay_ms(LARGE) == 30_000
    for _ in range(50):
        delays.observe(LARGE, 0)
    assert delays.table().delay_ms(LARGE) == 0
    assert before.delay_ms(LARGE) == 30_000


def test_a_negative_delay_is_a_mistake() -> None:
    """Clocks that went back are the caller's to judge."""
    with pytest.raises(ValueError, match="0 ms or more"):
        StartDelays().observe(SMALL, -1)


def test_a_gang_is_held_a_delay_longer_and_a_small_one_as_asked() -> None:
    """Ten bundles for 60 s with 30 s of delay are ten for 90 s."""
    table = _learnt(0, 30_000)
    gang, small = "atom(<12 GiB memory>, 10, 10, 60, 600)", "atom(<1 GiB memory>, 1, 1, 1, 1)"
    found = format_expression(enlarge(parse(f"window(all({gang}, {small}), 0, 900)"), table))
    assert "atom(<12 GiB memory>, 10, 10, 90, 900)" in found
    assert "atom(<1 GiB memory>, 1, 1, 1, 1)" in found


def test_members_that_run_together_are_held_the_same_delay_longer() -> None:
    """A small driver starts with its large workers: its lease grows as theirs do."""
    table = _learnt(0, 30_000)
    workers = "atom(<12 GiB memory>, 4, 4, 60, 240)"
    text = f"window(together(atom(<1 cpu>, 1, 1, 60, 60), {workers}), 0, 900)"
    found = format_expression(enlarge(parse(text), table))
    assert "1, 1, 90, 90)" in found
    assert "4, 4, 90, 360)" in found


def test_without_a_table_nothing_changes() -> None:
    """Every operator passes through as it was."""
    text = "any(every(60, order(atom(<1 cpu>, 1, 1, 1, 1), void(<1 cpu>, 1)), times=2), all())"
    expression = parse(text)
    assert enlarge(expression, NO_DELAY) == expression


_ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6), st.integers(1, 4)), max_size=6)


@given(_ROWS, st.integers(0, 8), st.integers(0, 30))
def test_rises_come_sooner_and_nothing_is_lost(
    parts: list[tuple[int, int, int]], lead: int, step: int
) -> None:
    """At each step, of totals: the most of the rows of the next `lead` steps, less those of now."""
    rows, at = [], 0
    for gap, length, bundles in parts:
        rows.append((at + gap, at + gap + length, bundles, ANYWHERE))
        at += gap + length
    slots = np.array(rows, dtype=np.int64).reshape(-1, 4)
    found = SlotRows(slots, np.zeros(len(rows), dtype=np.int64), ()).rises(step, [lead])
    now = sum(n for s, e, n, _ in rows if s <= step < e)
    ahead = [n for s, e, n, _ in rows if s - lead <= step < e]
    assert sum(slot.bundles for slot in found[0]) == max([now, *ahead]) - now
    assert all(slot.machine is None for slot in found[0])


def test_bundles_that_lost_their_machine_do_not_begin_early() -> None:
    """Those that have one do, on it alone."""
    slots = np.array([[5, 9, 1, NOWHERE], [5, 9, 2, 0]], dtype=np.int64)
    (found,) = SlotRows(slots, np.zeros(2, dtype=np.int64), ("m-0",)).rises(3, [4])
    assert found == [ActiveSlot("m-0", 2, 5, 9)]
