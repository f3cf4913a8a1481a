"""The colours of all pictures: eight that stay apart, also for colour-blind readers, on white.

Each has three times the contrast to white, and any two of them differ to normal, protan, deutan and
tritan sight. What comes after the eighth has them again, hatched; all others together are grey.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

COLOURS: Final = (
    "#308ee6", "#949827", "#127c04", "#d96299", "#3a3daf", "#5c3c00", "#8b556d", "#7f045a",
)  # fmt: skip

#: All others together: always hatched, for it is near two of the eight to some eyes.
OTHERS: Final = "#7d858d"

_HATCH: Final = "////"


def tenant_slots(tenants: Iterable[str]) -> dict[str, int]:
    """Return the slot of each tenant: its place among the names of all, sorted.

    The one rule of all pictures, so that a Plan looks alike in a file, on the page and in a
    notebook, anyone who asked first. The page has its slots from the server.
    """
    return {name: slot for slot, name in enumerate(sorted(set(tenants)))}


def colour_of(slot: int | None) -> str:
    """Return the colour of a slot, counted from 0; None stands for all others together."""
    return OTHERS if slot is None else COLOURS[slot % len(COLOURS)]


def hatch_of(slot: int | None) -> str | None:
    """Return the hatching of a slot as matplotlib writes it, or None for a plain area."""
    return None if slot is not None and slot < len(COLOURS) else _HATCH
