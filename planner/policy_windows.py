"""The heaviest window of a use, by one linear merge over its changes.

The integral over [tau, tau + W) is piecewise linear in tau and bends only where tau or tau + W is
a change, so its maximum stands at one of those. The Plan keeps dense slack instead, which a commit
updates in O(steps touched + W); this is for single functions, and holds the dense form to account.
"""

from __future__ import annotations

import numpy as np

from planner.reservation import Rows


def heaviest_window(rows: Rows, window: int) -> tuple[int, int]:
    """Return (start, integral) of a window of `window` steps that holds most.

    Parameters
    ----------
    rows
        int64[m, 3]: start, end, amount; may overlap, in any order.

    Returns
    -------
    start, integral
        The earliest such start among the candidates, and its amount-steps; (0, 0) without rows.
    """
    if not len(rows):
        return 0, 0
    at, area = _integral(rows)
    candidates = np.unique(np.concatenate([at, at - window]))
    held = _area_before(candidates + window, at, area) - _area_before(candidates, at, area)
    best = int(np.argmax(held))
    return int(candidates[best]), int(held[best])


def _integral(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return the changes, and (amount-steps before, amount from there on) at each."""
    at = np.unique(rows[:, :2])
    change = np.zeros(len(at), dtype=np.int64)
    np.add.at(change, np.searchsorted(at, rows[:, 0]), rows[:, 2])
    np.subtract.at(change, np.searchsorted(at, rows[:, 1]), rows[:, 2])
    height = np.cumsum(change)
    before = np.concatenate([[0], np.cumsum(height[:-1] * np.diff(at))])
    return at, np.stack([before, height])


def _area_before(when: np.ndarray, at: np.ndarray, area: np.ndarray) -> np.ndarray:
    """Return the amount-steps before each instant; sorted instants walk the changes once."""
    index = np.searchsorted(at, when, side="right") - 1
    inside = np.maximum(index, 0)
    held = area[0][inside] + area[1][inside] * (when - at[inside])
    return np.where(index < 0, 0, held)
