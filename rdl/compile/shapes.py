"""The reachable amounts of work of an atom, its shortest length, and a shape for it.

Everything is based on one block: a run of d >= l non-zero steps. With a maximum of m bundles, its
upper corners can be cut: late entries on the left (by m - g bundles), early exits on the right (by
min(m - g, g) bundles that entered first), each by at most d - l steps. So for l <= d < 2l a block
can have every work in [m d - (m - g + min(m - g, g)) (d - l), m d], and for d >= 2l every work in
[g d, h d] when h > g. One block is always enough: two blocks are at least 2l + 1 long together, and
one block of 2l or more reaches all that they reach. Derived and compared with brute force in
tests/rdl/compile/test_shapes.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache


def heights_of(g: int, h: int, multiple: int) -> tuple[int, int]:
    """Return g and h in units of `multiple`, rounded inward; g' > h' if there is none between."""
    return -(-g // multiple), h // multiple


def least_reachable(g: int, h: int, multiple: int, lease: int, work: int) -> int:
    """Return the smallest reachable work of ``atom(b, g, h, lease, .)`` at or above `work`.

    Parameters
    ----------
    g, h
        Smallest and largest number of concurrent bundles, 1 <= g <= h.
    multiple
        Divisor of every number of bundles; some number in [g, h] must be divisible.
    lease
        l in steps (or any unit of time), at least 1.
    work
        In bundle-steps (bundles times the same unit).

    Raises
    ------
    ValueError
        If the numbers describe no atom.
    """
    low, high = _check(g, h, multiple, lease)
    return multiple * _least(low, high, lease, max(1, -(-work // multiple)))


def greatest_reachable(g: int, h: int, multiple: int, lease: int, work: int) -> int | None:
    """Return the largest reachable work of the atom at or below `work`, or None.

    Parameters and errors are those of `least_reachable`.
    """
    low, high = _check(g, h, multiple, lease)
    wanted = work // multiple
    if wanted < low * lease:
        return None
    if _least(low, high, lease, wanted) == wanted:
        return multiple * wanted
    if low == high:
        return multiple * (wanted // low * low)
    length = -(-wanted // high)
    if length > 2 * lease:
        return multiple * high * (length - 1)
    # Unreachable: below 2 g l, or just above a full block. Take the fullest smaller block.
    highest, longest = min(high, wanted // lease), min(2 * lease - 1, wanted // low)
    if highest - low < longest - lease:
        return multiple * max(m * min(longest, wanted // m) for m in range(low, highest + 1))
    return multiple * max(d * min(highest, wanted // d) for d in range(lease, longest + 1))


def is_reachable(g: int, h: int, multiple: int, lease: int, work: int) -> bool:
    """Return whether the atom can have exactly `work`; parameters as `least_reachable`."""
    return work > 0 and least_reachable(g, h, multiple, lease, work) == work


def shortest_length(g: int, h: int, multiple: int, lease: int, work: int) -> int:
    """Return the smallest number of steps in which the atom can do exactly `work`.

    Parameters as `least_reachable`.

    Raises
    ------
    ValueError
        If `work` is not reachable.
    """
    low, high = _reachable(g, h, multiple, lease, work)
    return _shortest(low, high, lease, work // multiple)[0]


def shape(g: int, h: int, multiple: int, lease: int, work: int) -> list[int]:
    """Return an allocation of the shortest length, as bundles per step.

    ``shape(2, 3, 1, 2, 7)`` is ``[2, 3, 2]``. Parameters and errors as `shortest_length`.
    """
    low, high = _reachable(g, h, multiple, lease, work)
    length, highest = _shortest(low, high, lease, work // multiple)
    excess = length * highest - work // multiple
    margin = length - lease
    # From 2l on one bundle on each side is enough for any height (module docstring).
    late = highest - low if length < 2 * lease else 1
    left = min(excess, late * margin)
    changes = [0] * (length + 1)
    changes[0] = highest
    for moved, at in ((left, False), (excess - left, True)):
        full, rest = divmod(moved, margin) if moved else (0, 0)
        for bundles, by in ((full, margin), (1 if rest else 0, rest)):
            if at:
                changes[length - by] -= bundles
            else:
                changes[0] -= bundles
                changes[by] += bundles
    heights, height = [], 0
    for change in changes[:length]:
        height += change
        heights.append(height * multiple)
    return heights


@lru_cache(maxsize=65_536)
def round_up(numbers: tuple[int, int, int], lease: int, work: int) -> tuple[int, int]:
    """Return (smallest reachable work, its shortest length) for `numbers` = (g, h, multiple).

    The compiler calls it once per atom; cached, since requests repeat their shapes.
    """
    g, h, multiple = numbers
    low, high = _check(g, h, multiple, lease)
    least = _least(low, high, lease, max(1, -(-work // multiple)))
    return multiple * least, _shortest(low, high, lease, least)[0]


def _check(g: int, h: int, multiple: int, lease: int) -> tuple[int, int]:
    if g < 1 or multiple < 1 or lease < 1:
        raise ValueError(f"g, multiple and lease are at least 1, not {g}, {multiple}, {lease}")
    low, high = heights_of(g, h, multiple)
    if low > high:
        raise ValueError(f"no number of bundles from {g} to {h} is divisible by {multiple}")
    return low, high


def _reachable(g: int, h: int, multiple: int, lease: int, work: int) -> tuple[int, int]:
    low, high = _check(g, h, multiple, lease)
    if not is_reachable(g, h, multiple, lease, work):
        raise ValueError(f"atom(b, {g}, {h}, {lease}, {work}) cannot hold exactly {work}")
    return low, high


def _floor(g: int, m: int, lease: int, length: int) -> int:
    """Return the smallest work of a block of lease <= length < 2 lease with at most m bundles."""
    late = m - g
    return m * length - (late + min(late, g)) * (length - lease)


def _least(g: int, h: int, lease: int, work: int) -> int:
    if g == h:
        return g * max(lease, -(-work // g))
    if work >= 2 * g * lease:
        # The shortest block of d >= 2l; no shorter block has this much work.
        return max(work, g * max(2 * lease, -(-work // h)))
    best = 2 * g * lease
    for m, length in _blocks(g, h, lease, work):
        best = min(best, max(work, _floor(g, m, lease, length)))
        if best == work:
            break
    above = max(g, work // lease) + 1
    return min(best, above * lease) if above <= h else best


def _blocks(g: int, h: int, lease: int, work: int) -> Iterator[tuple[int, int]]:
    """Yield (maximum height, length < 2l), shortest first, of blocks that may have `work`.

    A block must have space for `work`, m d >= work, and its leases no more than it, m l <= work (or
    g l). Its smallest work grows with m and, up to m = 2g, with d; so for each m the shortest d
    suffices, and for each d the smallest m: the shorter list is used. Some block has exactly `work`
    as soon as (work / l - g)^2 > 2g, so callers stop after about sqrt(2 min(g, l)) of them.
    """
    longest = min(2 * lease - 1, -(-work // g)) if work > g * lease else lease
    if lease < g:
        for length in range(max(lease, -(-work // h)), longest + 1):
            yield max(g, -(-work // length)), length
    else:
        for m in range(min(h, max(g, work // lease)), g - 1, -1):
            length = max(lease, -(-work // m))
            if length >= 2 * lease:
                return
            yield m, length


def _shortest(g: int, h: int, lease: int, work: int) -> tuple[int, int]:
    """Return (length, maximum height) of the shortest block of reachable `work`."""
    if g == h:
        return work // g, g
    length = -(-work // h)
    if length < 2 * lease:
        for m, length in _blocks(g, h, lease, work):
            if _floor(g, m, lease, length) <= work:
                return length, m
        length = 2 * lease
    return length, -(-work // length)
