"""Whatever proposes changes proposes what the Plan accepts, and leaves a valid Plan."""

from __future__ import annotations

import os
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planner.adaptation.mixed_history import MixedHistory

#: For how many seconds the soak draws histories at most, and how long they are.
SECONDS = float(os.environ.get("AGENDA_SOAK_SECONDS", "7200"))
HISTORIES = int(os.environ.get("AGENDA_SOAK_HISTORIES", "2000"))
STEPS, LONG = 15, 60


#: Seeds and lengths of histories in which the adapter, the Plan and the validator disagreed once:
#: totals that machines cannot hold one by one, a run that was cut and restored, bundles that left
#: their machine for an outage that was taken back, a handover that an atom does not allow, a
#: bundle that left its machine, which others had taken, for less than a lease, and an occurrence
#: that began before time jumped on, alongside what was held then, and runs of a recurrence that
#: followed each other on a machine that one of them lost.
ONCE_WRONG = (
    (37, 12),
    (56, 6),
    (4034, 33),
    (4010, 30),
    (3015, 38),
    (6054, 21),
    (180773325, 29),
    (7000075, 20),
    (9500155, 30),
    (9500193, 6),
    (9500009, 24),
)


@pytest.mark.parametrize(("seed", "steps"), ONCE_WRONG)
def test_histories_that_once_disagreed(seed: int, steps: int) -> None:
    history = MixedHistory(random.Random(seed).randint)
    for _ in range(steps):
        history.step()


@settings(max_examples=10)
@given(st.randoms(use_true_random=False), st.integers(1, STEPS))
def test_proposals_are_accepted_on_their_version_and_leave_a_valid_plan(
    draw: random.Random, steps: int
) -> None:
    history = MixedHistory(draw.randint, others=draw.random() < 0.5)
    for _ in range(steps):
        history.step()


@pytest.mark.soak
def test_long_mixed_histories() -> None:
    """The same from seeds that are printed, in longer histories."""
    first = int(os.environ.get("AGENDA_SOAK_SEED") or random.SystemRandom().randrange(10**9))
    print(f"\nAGENDA_SOAK_SEED={first}")
    until, made = time.monotonic() + SECONDS, 0
    while made < HISTORIES and time.monotonic() < until:
        others = bool(made % 2)
        history = MixedHistory(random.Random(first + made).randint, others=others)
        try:
            for _ in range(LONG):
                history.step()
        except Exception as error:
            error.add_note(f"AGENDA_SOAK_SEED={first + made}")
            raise
        made += 1
    print(f"{made} histories, nothing found")
