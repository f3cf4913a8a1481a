"""Whom to displace: candidates of lower priority, and the fewest whose release frees capacity.

Requests that come in together, all or nothing, are as strong as the weakest of them: each must be
under a policy that lets it displace, and what gives way is of lower priority than all of them.

No reservation of some priority is displaced where those of less priority free capacity: the least
priority up to which all must be lifted is found first. Inside it sets are tried one by one, the
smallest first; where there are too many, all are lifted, and those not needed are put back. Where a
guarantee is taken back, levels are not priorities alone: the largest borrower comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, combinations, groupby
from math import comb
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster
from planner.cluster.policy import DisplacementRule
from planner.placement import Code
from planner.plan.plan import Plan
from planner.replanning.commitment import Commitment, commitment_of
from planner.replanning.draft_plan import DraftPlan
from planner.request import Request
from planner.reservations.state import STATE_NUMBERS, State
from rdl.work_graph import END, START

#: Sets of one size that are tried at most, one by one.
MOST_SETS: Final = 300

#: Levels of priority that are tried one after the other.
FEW_LEVELS: Final = 8

#: Subsets that are searched at most for one that keeps a rule.
MOST_SUBSETS: Final = 8

#: A draft in which all that is to be placed has its place, and the reservations displaced for it.
Found = tuple[DraftPlan, list[Commitment]]

#: What gives way no later than what has more; compared part by part.
Level = tuple[float, ...]


def priority_level(commitment: Commitment) -> Level:
    """Return the priority of a commitment as its level."""
    return (commitment.priority,)


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
    level
        Nothing of a level gives way where what has less suffices.
    """

    def __init__(
        self,
        base: DraftPlan,
        place: Callable[[DraftPlan], bool],
        stop: Callable[[], bool],
        *,
        breaks_leases: bool = True,
        level: Callable[[Commitment], Level] = priority_level,
    ) -> None:
        self._base = base
        self._place = place
        self._stop = stop
        self._breaks_leases = breaks_leases
        self._level = level

    def run(self, candidates: Sequence[Commitment]) -> Found | None:
        """Return the best set found; None if it does not fit even if all of them give way.

        Parameters
        ----------
        candidates
            In the order in which they give way, those of the least level first.
        """
        whole = self.without(candidates) if candidates else None
        if whole is None:
            return None
        lifted, found = self._least_level(candidates, whole)
        return self._fewest(lifted, self._trim(found))

    def run_keeping(
        self, candidates: Sequence[Commitment], keeps: Callable[[DraftPlan], bool]
    ) -> Found | None:
        """Return the best set found; where that breaks a rule, one that keeps it if one is found.

        Parameters
        ----------
        candidates
            In the order in which they give way, those of the least level first.
        keeps
            The rule, on what a draft holds: a draft keeps it if one that holds less does.
        """
        found = self.run(candidates)
        if found is None or keeps(found[0]):
            return found
        tried: set[int] = set()
        for _ in range(MOST_SUBSETS):
            first = next((one for one in candidates if one.number not in tried), None)
            if first is None or (tried and self._stop()):
                break
            released = self._most_released(first, candidates, keeps)
            tried |= {first.number, *(one.number for one in released)}
            # Each part of what may be released together may be released, too.
            within = self.run(released)
            if within is not None:
                return within
        return found

    def _most_released(
        self,
        first: Commitment,
        candidates: Sequence[Commitment],
        keeps: Callable[[DraftPlan], bool],
    ) -> list[Commitment]:
        """Return candidates in their order that may hold nothing together, `first` if it may."""
        draft = self._base.copy()
        chosen: set[int] = set()
        for one in (first, *(other for other in candidates if other is not first)):
            fewer = draft.copy()
            self._release(fewer, one)
            if keeps(fewer):
                draft = fewer
                chosen.add(one.number)
        return [one for one in candidates if one.number in chosen]

    def _least_level(
        self, candidates: Sequence[Commitment], whole: Found
    ) -> tuple[Sequence[Commitment], Found]:
        """Return all up to the least level that suffices, with what is wanted then placed.

        One level after the other where they are few, else by halves; no time ends this.
        """
        levels = groupby(candidates, self._level)
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
            self._release(draft, one)
        return (draft, list(commitments)) if self._place(draft) else None

    def _release(self, draft: DraftPlan, one: Commitment) -> None:
        draft.lift(one)
        if one.started and self._breaks_leases:
            draft.strip(one)

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
        """Return what is needed of the shortest run of the first ones that frees capacity."""
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
        """Put back those not needed, those that would give way last first."""
        draft, lifted = found
        needed = [one for one in reversed(lifted) if not draft.put_back(one)]
        return draft, needed[::-1]

    def _sets(self, lifted: Sequence[Commitment], size: int) -> Iterator[Sequence[Commitment]]:
        yield from sorted(combinations(lifted, size), key=self._key_of)

    def _key(self, found: Found) -> tuple[int, list[Level], float, list[int]]:
        return self._key_of(found[1])

    def _key_of(
        self, commitments: Sequence[Commitment]
    ) -> tuple[int, list[Level], float, list[int]]:
        """Return the key of a set: fewer, then of less level, of less value, newer."""
        orders = [one.importance for one in commitments]
        levels = sorted(map(self._level, commitments), reverse=True)
        value = round(sum(value for _, value, _ in orders), 6)
        return len(orders), levels, value, sorted(number for _, _, number in orders)


#: Refusals that capacity would help.
FOR_ROOM: Final = frozenset({Code.CAPACITY, Code.CAPACITY_OVER_TIME, Code.QUOTA})

#: Most reservations that are looked at for one request: those of the lowest priority.
MOST_LOOKED_AT: Final = 400


def may_displace(plan: Plan, requests: Sequence[Request]) -> bool:
    """Return whether policies let requests displace, and some reservation could give way."""
    return bool(len(_numbers(plan, requests)))


def candidates_of(plan: Plan, requests: Sequence[Request]) -> list[Commitment]:
    """Return the reservations that may be displaced, in the order in which they give way.

    The order is `Commitment.importance`. Degraded reservations, holds, and the reservations that
    the requests are changes of are left alone.
    """
    numbers = _numbers(plan, requests)
    if len(numbers) > MOST_LOOKED_AT:
        meta = plan.table.meta[numbers]
        order = np.lexsort((-numbers, meta["weight"], meta["priority"]))
        numbers = numbers[order[:MOST_LOOKED_AT]]
    found = [commitment_of(plan, number) for number in numbers.tolist()]
    return sorted(found, key=lambda one: one.importance)


def displaced_reason(came: Sequence[tuple[str, str]], tenant: str) -> str:
    """Return why a reservation was displaced, as its tenant may read it.

    A request of another tenant has no name there; of several, those after the first are counted.

    Parameters
    ----------
    came
        Id and tenant of what took its place.
    """
    own = [id_ for id_, theirs in came if theirs == tenant]
    first = own[0] if own else "a request of another tenant"
    more = "" if len(came) == 1 else f" and {len(came) - 1} more of its batch"
    return f"displaced by {first}{more}, of higher priority"


def _rules_for(cluster: Cluster, request: Request) -> list[DisplacementRule]:
    """Return the policies that let a request displace others."""
    return [
        rule
        for rule in cluster.displacement_rules
        if rule.scope.key(request.tenant, request.queue) is not None
    ]


def _numbers(plan: Plan, requests: Sequence[Request]) -> NDArray[np.int64]:
    """Return the reservations of less priority that hold something inside a request's window."""
    table = plan.table
    rules = [_rules_for(plan.cluster, request) for request in requests]
    if not all(rules):
        return np.zeros(0, dtype=np.int64)
    meta = table.meta
    accepted, active = STATE_NUMBERS[State.ACCEPTED], STATE_NUMBERS[State.ACTIVE]
    running = all(any(rule.running for rule in mine) for mine in rules)
    chosen = np.isin(meta["state"], [accepted, active] if running else [accepted])
    chosen &= meta["priority"] < min(request.priority for request in requests)
    chosen &= (meta["atoms"] > 0) & _hold_inside(plan, requests)
    kept = [*table.holds, *(table.number_of(request.id) for request in requests)]
    numbers = np.flatnonzero(chosen)
    return numbers[~np.isin(numbers, [number for number in kept if number is not None])]


def _hold_inside(plan: Plan, requests: Sequence[Request]) -> NDArray[np.bool_]:
    """Return bool[reservations]: which of them hold something inside any of the windows."""
    meta = plan.table.meta
    inside = np.zeros(len(meta), dtype=bool)
    for request in requests:
        vertices = request.graph.vertices
        if len(vertices):
            first, end = max(plan.now, int(vertices[-1, START])), int(vertices[-1, END])
            inside |= (meta["begin"] < end) & (meta["finish"] > first)
    return inside
