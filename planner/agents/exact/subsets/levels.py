"""What requests can be worth: a level for each worth that some way to take their options has.

A subset says of each request that is in it what it is worth at least. So a level holds all ways
that leave its worth or more, and a lower level can be placed wherever a higher can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from planner.agents.option_variants import OptionVariant, all_variants
from planner.request import Request
from planner.value import value_asked
from rdl.resources import Resources

#: Worths that differ by less are one.
_SAME: Final = 1e-9


@dataclass(frozen=True, slots=True)
class WorthLevel:
    """One worth of one request.

    Attributes
    ----------
    request
        Its index.
    worth
        What its options leave of a worth of 1 at least.
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
        Every way to take the options of each request, by request.
    """

    levels: tuple[WorthLevel, ...]
    variants: tuple[OptionVariant, ...]

    def lowest(self, level: int) -> int:
        """Return the lowest level of the same request."""
        last = level
        while last + 1 < len(self.levels) and self._same(last + 1, level):
            last += 1
        return last

    def unreached(self, level: int) -> tuple[OptionVariant, ...]:
        """Return the ways of the same request that are worth less than a level."""
        every = self.levels[self.lowest(level)].variants
        return tuple(self.variants[at] for at in every[len(self.levels[level].variants) :])

    def value(self, subset: Sequence[int]) -> float:
        """Return what the levels of a subset are worth at least."""
        return sum(self.levels[level].value for level in subset)

    def holds(self, subset: Sequence[int], core: Sequence[int]) -> bool:
        """Return whether a subset has all levels of a core, or higher ones."""
        own = {self.levels[level].request: level for level in subset}
        last = len(self.levels)
        return all(own.get(self.levels[level].request, last) <= level for level in core)

    def _same(self, one: int, other: int) -> bool:
        return self.levels[one].request == self.levels[other].request


def level_book(requests: Sequence[Request], reference: Resources) -> LevelBook | None:
    """Return the levels of all requests, or None where one has too many ways to list them."""
    levels: list[WorthLevel] = []
    variants: list[OptionVariant] = []
    for index, request in enumerate(requests):
        ways = sorted(all_variants(request, reference), key=lambda way: -way.worth)
        if not ways:
            return None
        asked, first = value_asked(request, reference), len(variants)
        for at, way in enumerate(ways):
            variants.append(way)
            if at + 1 == len(ways) or ways[at + 1].worth < way.worth - _SAME:
                reached = tuple(range(first, first + at + 1))
                levels.append(WorthLevel(index, way.worth, asked * way.worth, reached))
    return LevelBook(tuple(levels), tuple(variants))
