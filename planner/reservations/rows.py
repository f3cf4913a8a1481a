"""Step functions as rows: int64[m, 3] of (start, end, bundles), steps in [start, end).

Rows of one holding are sorted and disjoint; functions that take rows in any order say so.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.reservations.reservation import Rows

#: Up to this many rows a loop is faster than NumPy: for `dense`, and for `add_up`.
_FEW = 16
_FEW_ADDED = 128


def split(rows: Rows, step: int) -> tuple[Rows, Rows]:
    """Return the parts of `rows` before and from `step` on."""
    past = rows[rows[:, 0] < step].copy()
    rest = rows[rows[:, 1] > step].copy()
    past[:, 1] = np.minimum(past[:, 1], step)
    rest[:, 0] = np.maximum(rest[:, 0], step)
    return past, rest


def merge(rows: Rows) -> Rows:
    """Return sorted rows, with adjacent rows of equal height joined."""
    out: list[list[int]] = []
    for start, end, bundles in rows.tolist():
        if out and out[-1][1] == start and out[-1][2] == bundles:
            out[-1][1] = end
        else:
            out.append([start, end, bundles])
    return np.array(out, dtype=np.int64).reshape(-1, 3)


def add_up(rows: Rows) -> Rows:
    """Return the positive part of the sum of rows in any order, overlapping or not.

    The result is sorted, disjoint and merged.
    """
    if len(rows) <= _FEW_ADDED:
        return _add_up_few(rows)
    marks = np.unique(rows[:, :2])
    heights = differences(rows, rows[:0])
    parts = np.stack([marks[:-1], marks[1:], heights[:-1]], axis=1)
    return merge(parts[parts[:, 2] > 0])


def _add_up_few(rows: Rows) -> Rows:
    """Do the same as `add_up` without the call overhead of NumPy."""
    changes: dict[int, int] = {}
    for start, end, bundles in rows.tolist():
        changes[start] = changes.get(start, 0) + bundles
        changes[end] = changes.get(end, 0) - bundles
    out: list[tuple[int, int, int]] = []
    height = since = 0
    for step, change in sorted(changes.items()):
        if change:
            if height > 0:
                out.append((since, step, height))
            height, since = height + change, step
    return np.array(out, dtype=np.int64).reshape(-1, 3)


def subtract(rows: Rows, less: Rows) -> Rows:
    """Return the positive part of `rows` minus `less`."""
    return add_up(np.concatenate([rows, less * np.array([1, 1, -1])]))


def differences(rows: Rows, less: Rows) -> NDArray[np.int64]:
    """Return int64[n]: height of `rows` minus that of `less` from each step of change on.

    The steps are sorted and unique; rows may be in any order.
    """
    marks = np.unique(np.concatenate([rows[:, :2], less[:, :2]]))
    change = np.zeros(len(marks) + 1, dtype=np.int64)
    for held, sign in ((rows, 1), (less, -1)):
        np.add.at(change, np.searchsorted(marks, held[:, 0]), sign * held[:, 2])
        np.subtract.at(change, np.searchsorted(marks, held[:, 1]), sign * held[:, 2])
    return np.cumsum(change[:-1])


def work_gained(new: Rows, old: Rows | None) -> int:
    """Return the bundle-steps of the positive part of `new` minus `old`; None is empty."""
    if old is None or not len(old) or not len(new):
        return int(((new[:, 1] - new[:, 0]) * new[:, 2]).sum())
    marks = np.unique(np.concatenate([new[:, :2], old[:, :2]]))
    gain = np.maximum(0, differences(new, old))[:-1]
    return int((gain * np.diff(marks)).sum())


def dense(rows: Rows, first: int, steps: int) -> NDArray[np.int64]:
    """Return int64[steps]: bundles held from step `first` on; rows outside are cut off.

    Rows may be in any order and overlap.
    """
    change = np.zeros(steps + 1, dtype=np.int64)
    if len(rows) <= _FEW:
        for start, end, bundles in rows.tolist():
            change[min(max(start - first, 0), steps)] += bundles
            change[min(max(end - first, 0), steps)] -= bundles
    else:
        np.add.at(change, np.clip(rows[:, 0] - first, 0, steps), rows[:, 2])
        np.subtract.at(change, np.clip(rows[:, 1] - first, 0, steps), rows[:, 2])
    return np.cumsum(change[:-1])
