"""What a request holds over time before and after, few enough numbers for a picture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

#: Most rows of one request; beyond that neighbours are joined.
MOST_ROWS: Final = 24

#: Start and end in seconds from the origin, most bundles held.
HeldRow: TypeAlias = tuple[float, float, float]


def drawn_difference(
    difference: Mapping[str, Any], old: Mapping[str, Any] | None, new: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return an entry of a diff with its ``tenant``, and the ``rows`` held before and after.

    Parameters
    ----------
    difference
        As `planner.workload.diff.RequestDiff` writes itself.
    old, new
        The entries of the request as plan files have them; None where a plan does not know it.
    """
    known = new or old or {}
    rows = [held_rows(old), held_rows(new)]
    return {**difference, "tenant": known.get("tenant"), "rows": rows}


def held_rows(entry: Mapping[str, Any] | None, most: int = MOST_ROWS) -> list[HeldRow]:
    """Return what all atoms of a request hold together over time, in order of time.

    Where that takes more than `most` rows neighbours are joined, and the larger number stands for
    both.
    """
    if entry is None:
        return []
    changes: dict[float, float] = defaultdict(float)
    for atom in entry.get("atoms", ()):
        for start, end, bundles in atom["allocation"]:
            changes[start] += bundles
            changes[end] -= bundles
    rows: list[HeldRow] = []
    held = 0.0
    for start, end in pairwise(sorted(changes)):
        held += changes[start]
        if held > 0:
            rows.append((start, end, held))
    return _joined(rows, most)


def _joined(rows: Sequence[HeldRow], most: int) -> list[HeldRow]:
    found = list(rows)
    while len(found) > most:
        pairs = zip(found[::2], found[1::2], strict=False)
        odd = found[-1:] if len(found) % 2 else []
        found = [(a[0], b[1], max(a[2], b[2])) for a, b in pairs] + odd
    return found
