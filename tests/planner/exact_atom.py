"""The exact answer for small atoms: dynamic programming over the ages of leases."""

from __future__ import annotations

from collections.abc import Sequence


def reachable_works(least: int, most: int, lease: int, capacity: Sequence[int]) -> int:
    """Return a bit mask of all works one atom can hold under `capacity`, each bundle a lease.

    A state is how many bundles have each age 1, 2, ... with `lease` and above counted together;
    its value is the set of works used so far, as bits. Only the last count may be released.
    """
    states: dict[tuple[int, ...], int] = {(0,) * lease: 1}
    for limit in capacity:
        top = min(most, limit)
        following: dict[tuple[int, ...], int] = {}
        for ages, works in states.items():
            young, old = sum(ages[:-1]), ages[-1]
            for kept in range(old + 1):
                held = young + kept
                for height in range(held, max(top, held) + 1):
                    if height and not least <= height <= top:
                        continue
                    if lease == 1:
                        after: tuple[int, ...] = (height,)
                    else:
                        after = (height - held, *ages[:-2], kept + ages[-2])
                    following[after] = following.get(after, 0) | works << height
        states = following
    final = 0
    for ages, works in states.items():
        if not any(ages[:-1]):
            final |= works
    return final


def fits(least: int, most: int, lease: int, work: int, capacity: Sequence[int]) -> bool:
    """Return whether an atom of this work has any allocation under `capacity`."""
    return bool(reachable_works(least, most, lease, capacity) >> work & 1)


def is_allocation(least: int, most: int, lease: int, work: int, heights: Sequence[int]) -> bool:
    """Return whether these heights are an allocation of the atom, by first in first out."""
    if sum(heights) != work or any(x and not least <= x <= most for x in heights):
        return False
    taken: list[int] = []
    for step, height in enumerate([*heights, 0]):
        while len(taken) > height:
            if step - taken.pop(0) < lease:
                return False
        taken.extend([step] * (height - len(taken)))
    return True
