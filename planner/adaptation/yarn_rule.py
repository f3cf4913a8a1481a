"""YARN's answer to lost capacity, to be compared with and to start from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.replanning.commitment import Commitment
from planner.replanning.draft_plan import DraftPlan, Overcommitment, shortage_of


def yarn_order(layout: DraftPlan, hit: Sequence[Commitment]) -> list[Commitment]:
    """Return those that YARN's rule would drop first, newest first, then the others."""
    dropped = yarn_rule(layout, hit)
    first = {one.number for one in dropped}
    return dropped + [one for one in reversed(hit) if one.number not in first]


def yarn_rule(layout: DraftPlan, hit: Sequence[Commitment]) -> list[Commitment]:
    """Return what YARN's SimpleCapacityReplanner drops: at each step in turn, newest first.

    Parameters
    ----------
    hit
        Promises in order of admission.
    """
    trial = layout.copy()
    dropped: list[Commitment] = []
    while True:
        short = shortage_of(trial.ledger)
        if not short.counts:
            return dropped
        step = min(int(np.argmax(np.diff(count) > 0)) for count in short.counts.values())
        at = np.array([[step + short.first, step + short.first + 1, 1]], dtype=np.int64)
        victim = next((one for one in reversed(hit) if _takes_at(trial, one, short, at)), None)
        if victim is None:
            return dropped
        _drop(trial, victim)
        dropped.append(victim)


def _takes_at(
    layout: DraftPlan, promise: Commitment, short: Overcommitment, at: NDArray[np.int64]
) -> bool:
    if promise.number in layout.stripped:
        return False
    step = int(at[0, 0])
    for taking in layout.takings(promise, layout.held(promise)):
        rows = taking.rows
        here = bool(((rows[:, 0] <= step) & (step < rows[:, 1])).any())
        if here and any(row in short.counts for row in taking.demand.rows):
            return True
    return False


def _drop(layout: DraftPlan, promise: Commitment) -> None:
    layout.lift(promise)
    layout.strip(promise)
