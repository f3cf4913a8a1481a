"""SlotAccount: slots kept, broken and lost, by what waited for them and for how long."""

from __future__ import annotations

import numpy as np
import pytest

from dispatch.entitlements.directive import (
    AtomShare,
    Directive,
    Entitlement,
    Standings,
)
from dispatch.entitlements.slots import LOST, ActiveSlot
from rdl.resources import Resources
from tests.dispatch.cycle.slot_account import SlotAccount, SlotCounts

_WAITS = frozenset({("r", "m-0")})
_NOTHING = frozenset[tuple[str, str]]()


def _directive(at_ms: int, machine: str | None) -> Directive:
    slot = ActiveSlot(machine, 1, 0, 9)
    share = AtomShare("0", 1, Resources.of({"cpu": 1000}), None, (slot,))
    held = (Entitlement("r", "t", 0, (share,)),)
    standings = Standings(lambda _: 0, np.zeros(0, dtype=np.int32), 0, frozenset({"r"}))
    return Directive(0, at_ms, held, held, held, standings)


@pytest.mark.parametrize(
    ("waits", "machine", "down", "counts"),
    [
        ((0, 0, 0), "m-0", set(), SlotCounts(kept=1)),
        ((1, 0, 0), "m-0", set(), SlotCounts(kept=1)),
        ((1, 0, 1), "m-0", set(), SlotCounts(kept=1)),
        ((1, 1, 0), "m-0", set(), SlotCounts(broken=1)),
        ((1, 1, 0), "m-0", {"m-0"}, SlotCounts(lost=1)),
        ((0, 0, 0), LOST, set(), SlotCounts(lost=1)),
    ],
)
def test_a_slot_is_broken_by_work_that_waits_at_two_ticks_in_a_row(
    waits: tuple[int, ...], machine: str | None, down: set[str], counts: SlotCounts
) -> None:
    """Once is the tick in which it starts; a machine that is gone breaks nothing."""
    book = SlotAccount(tick_ms=1000)
    for second, wait in enumerate(waits):
        book.observe(_directive(second * 1000, machine), _WAITS if wait else _NOTHING, down)
    book.end()
    assert book.counts == counts
    assert bool(book.broken) == bool(counts.broken)
