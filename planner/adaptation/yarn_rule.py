"""YARN's answer to lost capacity, to be compared with and to start from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.replanning.commitment import Commitment
from planner.replanning.draft_plan import DraftPlan, Overcommitment, shortage_of


def yarn_order(draft: DraftPlan, hit: Sequence[Commitment]) -> list[Commitment]:
    """Return those that YARN's rule would drop first, newest first, then the others."""
    dropped = yarn_rule(draft, hit)
    first = {one.number for one in dropped}
    return dropped + [one for one in reversed(hit) if one.number not in first]


def yarn_rule(draft: DraftPlan, hit: Sequence[Commitment]) -> list[Commitment]:
    """Return what YARN's SimpleCapacityReplanner drops: at each step in turn, newest first.

    Parameters
    ----------
    hit
        Commitments in order of admission.
    """
    trial = draft.copy()
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
    draft: DraftPlan, commitment: Commitment, short: Overcommitment, at: NDArray[np.int64]
) -> bool:
    if commitment.number in draft.stripped:
        return False
    step = int(at[0, 0])
    for taking in draft.takings(commitment, draft.held_by(commitment.number)):
        rows = taking.rows
        here = bool(((rows[:, 0] <= step) & (step < rows[:, 1])).any())
        if here and any(row in short.counts for row in taking.demand.rows):
            return True
    return False


def _drop(draft: DraftPlan, commitment: Commitment) -> None:
    draft.lift(commitment)
    draft.strip(commitment)
