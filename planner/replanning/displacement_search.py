"""The fewest reservations whose release makes room for what is to be placed.

No reservation of some priority is displaced where those of less priority make room: the least
priority up to which all must be lifted is found first. Inside it sets are tried one by one, the
smallest first; where there are too many, all are lifted, and those not needed are put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, combinations, groupby
from math import comb
from typing import Final

from planner.replanning.commitment import Commitment
from planner.replanning.draft_plan import DraftPlan

#: Sets of one size that are tried at most, one by one.
MOST_SETS: Final = 300

#: Levels of priority that are tried one after the other.
FEW_LEVELS: Final = 8

#: A draft in which all that is to be placed has its place, and the reservations displaced for it.
Found = tuple[DraftPlan, list[Commitment]]


class DisplacementSearch:
    """Searches, on drafts of one Plan, for the reservations to displace.

    Parameters
    ----------
    base
        The Plan as it is; what is to be placed does not fit in it.
    place
        Places all of it in a draft, and returns whether it could.
    stop
        Whether the time is over; then the best set so far is returned.
    breaks_leases
        Whether reservations that have begun lose their leases in force too.
    """

    def __init__(
        self,
        base: DraftPlan,
        place: Callable[[DraftPlan], bool],
        stop: Callable[[], bool],
        *,
        breaks_leases: bool = True,
    ) -> None:
        self._base = base
        self._place = place
        self._stop = stop
        self._breaks_leases = breaks_leases

    def run(self, candidates: Sequence[Commitment]) -> Found | None:
        """Return the best set found; None where it does not fit even if all of them make way.

        Parameters
        ----------
        candidates
            In the order in which they make way.
        """
        whole = self.without(candidates) if candidates else None
        if whole is None:
            return None
        lifted, found = self._least_level(candidates, whole)
        return self._fewest(lifted, self._trim(found))

    def _least_level(
        self, candidates: Sequence[Commitment], whole: Found
    ) -> tuple[Sequence[Commitment], Found]:
        """Return all up to the least priority that suffices, with what is wanted then placed.

        One level after the other where they are few, else by halves; no time ends this.
        """
        levels = groupby(candidates, lambda one: one.priority)
        ends = list(accumulate(len(list(group)) for _, group in levels))
        low, high, found = 0, len(ends) - 1, whole
        while low < high:
            middle = low if len(ends) <= FEW_LEVELS else (low + high) // 2
            fewer = self.without(candidates[: ends[middle]])
            if fewer is None:
                low = middle + 1
            else:
                found, high = fewer, middle
        return candidates[: ends[high]], found

    def without(self, commitments: Sequence[Commitment]) -> Found | None:
        """Return a draft with all of it placed where some reservations hold nothing, or None."""
        draft = self._base.copy()
        for one in commitments:
            draft.lift(one)
            if one.started and self._breaks_leases:
                draft.strip(one)
        return (draft, list(commitments)) if self._place(draft) else None

    def _fewest(self, lifted: Sequence[Commitment], found: Found) -> Found:
        """Return the smallest of the sets that are few enough to be tried, else the best known."""
        first_ones = self._shortest_run(lifted)
        if first_ones is not None and self._key(first_ones) < self._key(found):
            found = first_ones
        known = self._key(found)
        for size in range(1, len(found[1]) + 1):
            if comb(len(lifted), size) > MOST_SETS:
                break
            for few in self._sets(lifted, size):
                if self._stop() or self._key_of(few) >= known:
                    break
                smaller = self.without(few)
                if smaller is not None:
                    return smaller
        return found

    def _shortest_run(self, lifted: Sequence[Commitment]) -> Found | None:
        """Return what is needed of the shortest run of the first ones that makes room."""
        low, high = 1, len(lifted)
        best: Found | None = None
        while low < high and not self._stop():
            middle = (low + high) // 2
            found = self.without(lifted[:middle])
            if found is None:
                low = middle + 1
            else:
                best, high = found, middle
        return None if best is None else self._trim(best)

    def _trim(self, found: Found) -> Found:
        """Put back those not needed, those that would make way last first."""
        draft, lifted = found
        needed = [one for one in reversed(lifted) if not draft.put_back(one)]
        return draft, needed[::-1]

    def _sets(self, lifted: Sequence[Commitment], size: int) -> Iterator[Sequence[Commitment]]:
        yield from sorted(combinations(lifted, size), key=self._key_of)

    def _key(self, found: Found) -> tuple[int, list[int], float, list[int]]:
        return self._key_of(found[1])

    def _key_of(self, commitments: Sequence[Commitment]) -> tuple[int, list[int], float, list[int]]:
        """Return the key of a set: fewer, then of less priority, of less value, newer."""
        orders = [one.importance for one in commitments]
        priorities = sorted((priority for priority, _, _ in orders), reverse=True)
        value = round(sum(value for _, value, _ in orders), 6)
        return len(orders), priorities, value, sorted(number for _, _, number in orders)
