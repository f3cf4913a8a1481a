"""What requests can be worth: a level for each worth that some way to take their options has.

A subset says of each request that is in it what it is worth at least. So a level holds all ways
whose preferences come to its worth or more, and a lower level can be placed wherever a higher can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.agents.option_variants import all_variants
from planner.request import Request
from planner.value import value_asked
from rdl.resources import Resources

#: Preferences whose products differ by less are one worth.
_SAME: Final = 1e-9


@dataclass(frozen=True, slots=True)
class WorthLevel:
    """One worth of one request.

    Attributes
    ----------
    request
        Its index.
    worth
        Product of preferences that its options reach at least.
    value
        Of the request at this worth.
    variants
        Indexes of the ways that reach it (`LevelBook.variants`).
    """

    request: int
    worth: float
    value: float
    variants: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LevelBook:
    """All levels of a set of requests.

    Attributes
    ----------
    levels
        By request, the highest worth first.
    variants
        The requests, once for each way to take their options, all other options closed.
    owners
        The index of the request of each variant.
    """

    levels: tuple[WorthLevel, ...]
    variants: tuple[Request, ...]
    owners: tuple[int, ...]


def level_book(requests: Sequence[Request], nominal: Resources) -> LevelBook | None:
    """Return the levels of all requests, or None where one has too many ways to list them."""
    levels: list[WorthLevel] = []
    variants: list[Request] = []
    owners: list[int] = []
    for index, request in enumerate(requests):
        ways = sorted(all_variants(request), key=lambda way: -way[0])
        if not ways:
            return None
        asked, first = value_asked(request, nominal), len(variants)
        for at, (worth, variant) in enumerate(ways):
            variants.append(variant)
            owners.append(index)
            if at + 1 == len(ways) or ways[at + 1][0] < worth - _SAME:
                reached = tuple(range(first, first + at + 1))
                levels.append(WorthLevel(index, worth, asked * worth, reached))
    return LevelBook(tuple(levels), tuple(variants), tuple(owners))
