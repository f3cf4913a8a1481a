"""Row and cell indices of the scratch arrays."""

from __future__ import annotations

from typing import Final

# Rows of the step scratch; each is as long as the profile, and one more.
MAY_HOLD = 0  # what the atom may use at a column: 0 or min_height..max_height
ROOM = 1  # the same without the atom's maximum
HELD = 2  # the atom's allocation
SECOND = 3  # a second shape, or a copy of the first
THIRD = 4  # a third
BLOCK_AT = 5  # height of the block that ends at a column
QUEUE_COLUMN = 6  # queue of sliding minima, or stack of rectangles: column
QUEUE_VALUE = 7  # the same: value
NOTES = 8  # first cells only: longest run that fits the minimum height, its first column, area
NO_FROM, NO_TO = 3, 4  # cells of `NOTES`: heights [from, to) that have no block
# A shape as runs, from the right: these rows have first columns, end columns and heights.
RUN_FROM, RUN_TO, RUN_HEIGHT = BLOCK_AT, SECOND, THIRD
# Cells of a window: minimum free capacity and first column of each; then runs of cells.
CELL, CELL_FROM = SECOND, THIRD
OF_CELLS, FIRST_CELL, END_CELL = MAY_HOLD, HELD, BLOCK_AT
STEP_ROWS: Final = 9

# Rows of the vertex scratch; each is as long as the largest request has vertices, and one more.
CHILDREN_LEFT = 0  # children not complete
BLOCKED = 1  # successors not complete
OPENED = 2
HELD_FROM = 3  # first column allocated below this vertex
HELD_TO = 4  # first column past the last one allocated
CHOICE = 5  # first option that may be taken
TAKEN = 6  # option taken, -1 while undecided
END_CAP = 7  # upper bound of the end, lowered by leapfrog
DONE = 8  # atoms: placed
ROWS_FROM = 9  # atoms: first row in the row scratch
ROWS_HELD = 10  # atoms: number of rows
SUCC = 11  # first entry in the list of edges by `before`
PRED = 12  # first entry in the list of edges by `after`
HEAP = 13
KEY1 = 14
KEY2 = 15
STACK = 16  # atoms in the order of placement
SHARED_FROM = 17  # GREE-L: first column that an atom shares with its predecessors
TO_VISIT = 18  # work list
VERTEX_ROWS: Final = 19

# Cells of the request's state.
ROWS_USED = 0
HEAPED = 1
STACKED = 2
FAILED = 3  # vertex that was not placed
FAILED_WHY = 4
FAILED_FROM = 5
FAILED_TO = 6
LEAPS = 7
ROWS_FULL: Final = 8  # row scratch is too small
FIRM = 9  # the failure does not depend on earlier placements of this request
AVERAGE = 11  # average that prevented the last atom's placement, or -1
AVERAGE_FROM = 12  # and the start of its window
PHASE = 10  # how other options of `any` are chosen: 1 follows failures, 2 enumerates combinations
STATE_CELLS: Final = 13

FAR: Final = 1 << 60
