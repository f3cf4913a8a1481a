"""How much a promise says about machines."""

from __future__ import annotations

from enum import StrEnum


class PromiseLevel(StrEnum):
    """What holds of a reservation at every step, besides the totals of resources and policies."""

    #: The totals of all machines together have room; single machines may not.
    POOLED = "pooled"
    #: Some packing of everything promised onto the machines exists at every step.
    PACKABLE = "packable"
    #: Every bundle has a machine from the commit on.
    PLACED = "placed"
