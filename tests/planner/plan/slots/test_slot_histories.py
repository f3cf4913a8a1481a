"""Whatever happens to a Plan, machines keep what it promises, and its room is what slots leave."""

from __future__ import annotations

import os
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planner.plan.slots.slot_history import SlotHistory

#: Histories of the soak, and for how many seconds it continues at most.
HISTORIES = int(os.environ.get("AGENDA_SOAK_HISTORIES", "10000"))
SECONDS = float(os.environ.get("AGENDA_SOAK_SECONDS", "7200"))
STEPS = 25


#: Seeds of histories in which a relocation cut what had not begun within a lease: on a machine that
#: was lost later on, and of bundles that had no machine.
ONCE_WRONG = (891833867, 51083133)


@pytest.mark.parametrize("seed", ONCE_WRONG)
def test_histories_that_once_went_wrong(seed: int) -> None:
    history = SlotHistory(random.Random(seed).randint, within=False)
    for _ in range(STEPS):
        history.step()


@settings(max_examples=40)
@given(st.data())
def test_machines_keep_what_any_history_promised(data: st.DataObject) -> None:
    """After every commit: valid, the capacity of its slots, replayed and restored the same."""

    def choose(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    history = SlotHistory(choose)
    for _ in range(data.draw(st.integers(1, STEPS))):
        history.step()


@pytest.mark.soak
def test_ten_thousand_histories_keep_what_they_promised() -> None:
    """The same from seeds that are reported, thousands of times."""
    first = int(os.environ.get("AGENDA_SOAK_SEED") or random.SystemRandom().randrange(10**9))
    print(f"\nAGENDA_SOAK_SEED={first}")
    until, made = time.monotonic() + SECONDS, 0
    while made < HISTORIES and time.monotonic() < until:
        history = SlotHistory(random.Random(first + made).randint)
        try:
            for _ in range(STEPS):
                history.step()
        except Exception as error:
            error.add_note(f"AGENDA_SOAK_SEED={first + made}")
            raise
        made += 1
    print(f"{made} histories, nothing found")
