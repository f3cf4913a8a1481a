"""What a promise of the Plan is good for."""

from __future__ import annotations

from enum import StrEnum


class PromiseLevel(StrEnum):
    """How much of the machines a reservation is promised; the last is the strongest."""

    POOLED = "pooled"
    """Totals only: machines may be too scattered to hold all bundles."""

    PACKABLE = "packable"
    """At every step some packing exists; a bundle may have to move between steps."""

    PLACED = "placed"
    """Every bundle has a machine for as long as it is held."""
