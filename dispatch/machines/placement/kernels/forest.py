"""Trees that find the first leaf with capacity without looking at every leaf.

A `MaximaForest` stores the componentwise maximum capacity of blocks of 8 leaves, of 64, and so on,
one tree per group. The search for the first leaf that fits descends into blocks whose maximum
admits the request; if the maxima of a block come from different leaves, the descent may find
nothing there.
"""

# Mypy does not know the types of array elements.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dispatch.machines.placement.kernels.arrays import NONE, TOLERANCE, Floats, Longs
from dispatch.machines.placement.kernels.compiled import entry, inner

FAN = 8
LEVELS = 10


class MaximaForest(NamedTuple):
    """Componentwise maxima over blocks of leaves, one tree per group (see the module)."""

    leaf: Floats  # (leaves, C)
    node: Floats  # (nodes, C)
    base: Longs  # first leaf of each group
    level_base: Longs  # (groups, LEVELS) first node of each level; level 0 are the leaves
    level_size: Longs  # (groups, LEVELS)
    top: Longs  # highest level of each group
    values: Floats  # (C,) what `forest_set` writes
    wanted: Floats  # (C,) what `forest_next` looks for


@inner
def forest_set(forest: MaximaForest, group: int, place: int) -> None:
    """Set one leaf to `forest.values` and repair the blocks above it."""
    values = forest.values
    columns = values.size
    leaf = forest.base[group] + place
    lowered = False
    for c in range(columns):
        if values[c] < forest.leaf[leaf, c]:
            lowered = True
        forest.leaf[leaf, c] = values[c]
    child = place
    for level in range(1, forest.top[group] + 1):
        parent = child // FAN
        row = forest.level_base[group, level] + parent
        changed = False
        lowering = False
        first = parent * FAN
        last = min(first + FAN, forest.level_size[group, level - 1])
        under, below = forest.node, forest.level_base[group, level - 1]
        if level == 1:
            under, below = forest.leaf, forest.base[group]
        for c in range(columns):
            old = forest.node[row, c]
            new = under[below + child, c]
            if new < old and lowered:
                # The old maximum may have been this child's.
                for sibling in range(first, last):
                    new = max(new, under[below + sibling, c])
                    if new == old:
                        break
            elif new < old:
                new = old
            if new != old:
                changed = True
                if new < old:
                    lowering = True
                forest.node[row, c] = new
        if not changed:
            return
        lowered = lowering
        child = parent


@inner
def forest_next(forest: MaximaForest, group: int, place: int) -> int:
    """Return the first leaf from `place` on that fits `forest.wanted`, or NONE."""
    wanted = forest.wanted
    columns = wanted.size
    level = 0
    if place == 0:
        level = forest.top[group]
    while True:
        if place >= forest.level_size[group, level]:
            return NONE
        passes = True
        if level == 0:
            row = forest.base[group] + place
            for c in range(columns):
                if forest.leaf[row, c] + TOLERANCE < wanted[c]:
                    passes = False
                    break
            if passes:
                return place
        else:
            row = forest.level_base[group, level] + place
            for c in range(columns):
                if forest.node[row, c] + TOLERANCE < wanted[c]:
                    passes = False
                    break
            if passes:
                level -= 1
                place *= FAN
                continue
        place += 1
        while place % FAN == 0 and level < forest.top[group]:
            level += 1
            place //= FAN


@entry
def forest_rebuild(forest: MaximaForest) -> None:
    """Compute every block from the leaves."""
    columns = forest.leaf.shape[1]
    for group in range(forest.base.size):
        for level in range(1, forest.top[group] + 1):
            size = forest.level_size[group, level - 1]
            under, below = forest.node, forest.level_base[group, level - 1]
            if level == 1:
                under, below = forest.leaf, forest.base[group]
            for parent in range(forest.level_size[group, level]):
                row = forest.level_base[group, level] + parent
                for c in range(columns):
                    largest = -np.inf
                    for child in range(parent * FAN, min(parent * FAN + FAN, size)):
                        largest = max(largest, under[below + child, c])
                    forest.node[row, c] = largest


@inner
def forest_next_best(forest: MaximaForest, group: int) -> int:
    """First leaf that holds the largest first component."""
    level = forest.top[group]
    if level == 0:
        forest.wanted[0] = forest.leaf[forest.base[group], 0]
    else:
        forest.wanted[0] = forest.node[forest.level_base[group, level], 0]
    return forest_next(forest, group, 0)
