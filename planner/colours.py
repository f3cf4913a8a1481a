"""The colours of all pictures: eight that colour-blind readers can distinguish, on white.

Each has a contrast of 3:1 to white, and any two of them differ for normal, protan, deutan and
tritan vision. From the ninth on they are repeated, hatched; the sum of all others is grey.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

COLOURS: Final = (
    "#308ee6", "#949827", "#127c04", "#d96299", "#3a3daf", "#5c3c00", "#8b556d", "#7f045a",
)  # fmt: skip

#: The sum of all others: always hatched, since some readers confuse it with two of the eight.
OTHERS: Final = "#7d858d"

_HATCH: Final = "////"


def tenant_slots(tenants: Iterable[str]) -> dict[str, int]:
    """Return the slot of each tenant: its index among all names, sorted.

    All pictures use this rule, so that a Plan has the same colours in a file, on the page and in a
    notebook, whatever the order of requests. The page gets its slots from the server.
    """
    return {name: slot for slot, name in enumerate(sorted(set(tenants)))}


def colour_of(slot: int | None) -> str:
    """Return the colour of a slot, counted from 0; None is the sum of all others."""
    return OTHERS if slot is None else COLOURS[slot % len(COLOURS)]


def hatch_of(slot: int | None) -> str | None:
    """Return the hatch of a slot for matplotlib, or None for a plain area."""
    return None if slot is not None and slot < len(COLOURS) else _HATCH
