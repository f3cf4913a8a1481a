"""Topological orders, and cycles."""

from __future__ import annotations


def topological(count: int, arrows: list[tuple[int, int]]) -> list[int]:
    """Return the indices below `count` in topological order; incomplete if there is a cycle.

    Kahn's algorithm; ties keep the written order.
    """
    blocked = [0] * count
    after: list[list[int]] = [[] for _ in range(count)]
    for before, behind in arrows:
        blocked[behind] += 1
        after[before].append(behind)
    ready = [i for i in range(count - 1, -1, -1) if not blocked[i]]
    found: list[int] = []
    while ready:
        here = ready.pop()
        found.append(here)
        for behind in reversed(after[here]):
            blocked[behind] -= 1
            if not blocked[behind]:
                ready.append(behind)
    return found


def cycle_of(count: int, arrows: list[tuple[int, int]]) -> list[int]:
    """Return one cycle, its first index repeated at its end, or an empty list."""
    order = topological(count, arrows)
    if len(order) == count:
        return []
    # Each remaining index has a remaining predecessor: walk back until one repeats.
    left = set(range(count)) - set(order)
    before = {behind: ahead for ahead, behind in arrows if ahead in left and behind in left}
    walk = [next(i for i in range(count) if i in left)]
    seen = {walk[0]: 0}
    while True:
        here = before[walk[-1]]
        walk.append(here)
        if here in seen:
            return walk[seen[here] :][::-1]
        seen[here] = len(walk) - 1
