"""Interval colouring finds machines for whatever totals hold, and moves nothing that is fixed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster, MachineGroup
from planner.plan.batch.making_way import colour_slots, units_of
from planner.reservations.slots import NOWHERE
from rdl.resources import Resources

STEPS, BEGIN = 14, 4
NO_OUTAGE = np.zeros((0, 3), dtype=np.int64)

I64 = NDArray[np.int64]


def _held(slots: I64, machines: int) -> I64:
    """Return int64[machine, step]: bundles that slots hold."""
    held = np.zeros((machines, STEPS), dtype=np.int64)
    for start, end, bundles, machine in slots.tolist():
        held[machine, start:end] += bundles
    return held


@st.composite
def _questions(draw: st.DrawFn) -> tuple[I64, I64, I64]:
    """Return the units of machines, slots that stand on them, and slots without a machine."""
    units = np.array(draw(st.lists(st.integers(0, 3), min_size=1, max_size=5)), dtype=np.int64)
    free = np.repeat(units[:, None], STEPS, axis=1)
    standing, new = [], []
    for _ in range(draw(st.integers(0, 12))):
        start = draw(st.integers(0, STEPS - 1))
        end, bundles = draw(st.integers(start + 1, STEPS)), draw(st.integers(1, 2))
        machine = draw(st.integers(0, len(units) - 1))
        if free[machine, start:end].min() >= bundles:
            free[machine, start:end] -= bundles
            standing.append((start, end, bundles, machine))
    left = free.sum(axis=0)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(BEGIN, STEPS - 1))
        end = draw(st.integers(start + 1, STEPS))
        bundles = min(int(left[start:end].min()), draw(st.integers(1, 4)))
        if bundles > 0:
            left[start:end] -= bundles
            new.append((start, end, bundles, NOWHERE))
    return (
        units,
        np.array(standing, dtype=np.int64).reshape(-1, 4),
        np.array(new, dtype=np.int64).reshape(-1, 4),
    )


@given(_questions())
def test_whatever_totals_hold_finds_machines(question: tuple[I64, I64, I64]) -> None:
    """What began before stays; all others keep their steps, and no machine holds too many."""
    units, standing, new = question
    slots = np.concatenate([standing, new])
    fixed = (slots[:, 0] < BEGIN) & (slots[:, 3] != NOWHERE)
    found = colour_slots(slots, np.arange(len(slots)), fixed, NO_OUTAGE, units)
    assert found is not None
    laid, source = found
    assert (laid[:, :2] == slots[source, :2]).all()
    assert (np.bincount(source, minlength=len(slots)) == slots[:, 2]).all()
    assert (laid[fixed[source], 3] == slots[source[fixed[source]], 3]).all()
    assert (_held(laid, len(units)) <= units[:, None]).all()


@given(_questions(), st.integers(0, 3), st.integers(0, STEPS - 1), st.integers(1, STEPS))
def test_no_one_comes_to_a_machine_in_an_outage_nor_leaves_in_the_middle_of_a_stay(
    question: tuple[I64, I64, I64], machine: int, start: int, length: int
) -> None:
    """Slots of one atom that touch on a machine, or lie in each other there, stay."""
    units, standing, new = question
    slots = np.concatenate([standing, new])
    outage = np.array([[machine % len(units), start, start + length]], dtype=np.int64)
    keys = np.append(np.zeros(len(standing), dtype=np.int64), 1 + np.arange(len(new)))
    fixed = (slots[:, 0] < BEGIN) & (slots[:, 3] != NOWHERE)
    found = colour_slots(slots, keys, fixed, outage, units)
    if found is None:
        return
    laid, source = found
    held = _held(laid, len(units))
    assert (held <= units[:, None]).all()
    assert not held[outage[0, 0], start : start + length].any()
    for i, (first, last, _, where) in enumerate(standing.tolist()):
        others = np.delete(standing, i, axis=0)
        others = others[others[:, 3] == where]
        if (others[:, 1] == first).any() and units[where] == 1:
            assert (laid[source == i, 3] == where).all()
        assert first < last


def test_an_outage_that_leaves_too_little_is_reported() -> None:
    slots = np.array([[4, 8, 1, NOWHERE]], dtype=np.int64)
    outage = np.array([[0, 5, 6]], dtype=np.int64)
    nothing = np.zeros(1, dtype=bool)
    assert colour_slots(slots, np.zeros(1), nothing, outage, np.array([1])) is None
    found = colour_slots(slots, np.zeros(1), nothing, outage, np.array([1, 1]))
    assert found is not None
    assert found[0].tolist() == [[4, 8, 1, 1]]


@pytest.mark.parametrize(
    ("bundles", "expected"),
    [
        (["2 cpu"], [4, 4, 1]),
        (["5 cpu"], [1, 1, 0]),
        (["5 cpu", "8 cpu"], [1, 1, 0]),
        (["2 cpu", "3 cpu"], None),
        (["2 cpu", "8 cpu"], None),
        (["9 cpu"], [0, 0, 0]),
    ],
)
def test_units_are_there_where_bundles_are_the_same_or_exclude_each_other(
    bundles: list[str], expected: list[int] | None
) -> None:
    groups = (
        MachineGroup("large", 2, Resources.of({"cpu": 8})),
        MachineGroup("small", 1, Resources.of({"cpu": 3})),
    )
    cluster = Cluster(1000, 60_000, groups)
    shapes = [Resources.of({"cpu": int(one.split()[0])}) for one in bundles]
    units = units_of(cluster, [0, 1], shapes)
    assert (None if units is None else units.tolist()) == expected


def test_outages_that_overlap_are_one() -> None:
    """A machine that is lost within its maintenance is away once; past outages do not count."""
    units = np.array([1, 1])
    outages = np.array([[0, 1, 4], [0, 5, 9], [0, 7, 12]])
    new = np.array([[5, 7, 1, NOWHERE], [12, 14, 2, NOWHERE]])
    laid = colour_slots(new, np.arange(2), np.zeros(2, dtype=bool), outages, units)
    assert laid is not None
    slots, source = laid
    assert slots[source == 0][:, 3].tolist() == [1]
    assert sorted(slots[source == 1][:, 3].tolist()) == [0, 1]
