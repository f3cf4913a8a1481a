"""Constants shared by kernels and their callers: strategies, refusals, columns of results."""

from __future__ import annotations

from typing import Final

# Strategies for placing an atom; a request is tried with one after the other.
PAPER: Final = 0  # whole leases only, as printed in Rayon 4.2
BLOCKS: Final = 1  # GREE: whole leases first, then the steps that complete them
COMPACT: Final = 2  # GREE, but the shape with the latest start first
LOWEST: Final = 3  # GREE-L: the lowest free rectangle, then COMPACT
HEADROOM: Final = 4  # aligned: the rectangle that leaves most headroom, then COMPACT
HEADROOM_ONLY: Final = 5  # the same without a fall-back
LEVEL: Final = 6  # the highest level of headroom at which the work fits, then COMPACT
GAPS: Final = 7  # COMPACT, only for requests with maximum gaps

# Why an atom was not placed: the `WHY` column of a status row.
NO_ROOM: Final = 1
NO_FIT: Final = 2
NO_WINDOW: Final = 3
NO_GAP: Final = 4
NO_AVERAGE: Final = 5
NO_LEASE: Final = 6  # capacity for the minimum height never lasts a lease
NO_AREA: Final = 7  # the total free capacity is less than the work
NO_SHAPE: Final = 8  # the capacity suffices, but no combination of leases was found

# Columns of a status row, one row per request.
OUTCOME: Final = 0  # PLACED, REFUSED or PENDING
AT_VERTEX: Final = 1
WHY: Final = 2
AT_COLUMN: Final = 3  # -1 if no step is the cause
AT_ROW: Final = 4  # row of `free` (or of the averages), -1 if none is short
NEEDED: Final = 5
FREE: Final = 6
STRATEGY: Final = 7  # the one that placed the request
STATUS_COLUMNS: Final = 8

PENDING: Final = 0
PLACED: Final = 1
REFUSED: Final = 2

# Violations found by the re-check of an atom: the `WHY` column of a verdict.

# Columns of an extent row: the position of a request's result in the output arrays.
VERTEX_FIRST: Final = 0
VERTEX_COUNT: Final = 1
FIRST_FIRST: Final = 2
ROW_FIRST: Final = 3
ROW_COUNT: Final = 4
CHOICE_FIRST: Final = 5
CHOICE_COUNT: Final = 6
EXTENT_COLUMNS: Final = 7
