"""Choose reservations to displace: the fewest of lower priority that free enough capacity.

A batch of requests, all or nothing, is as strong as the weakest of them: a policy must let each of
them displace, and displaced reservations have a lower priority than all of them.

A reservation is not displaced if those of lower priority free enough capacity: the search first
finds the lowest priority up to which displacing all suffices. Then sets up to it are tried, the
smallest first; if there are too many sets, all are removed, and those not needed are put back. If a
guarantee is reclaimed, levels also depend on borrowed amounts: the largest borrower comes first.
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

#: Most sets of one size to try.
MOST_SETS: Final = 300

#: Up to this many levels of priority are tried in order; more by bisection.
FEW_LEVELS: Final = 8

#: Most subsets to search for one that keeps a rule.
MOST_SUBSETS: Final = 8

#: A draft with everything placed, and the reservations displaced for it.
Found = tuple[DraftPlan, list[Commitment]]

#: A reservation of a lower level is displaced first; compared part by part.
Level = tuple[float, ...]


def priority_level(commitment: Commitment) -> Level:
    """Return the priority of a commitment as its level."""
    return (commitment.priority,)


class DisplacementSearch:
    """Searches, on drafts of one Plan, for the reservations to displace.

    Parameters
    ----------
    base
        The current Plan; the requests do not fit in it.
    place
        Places all requests in a draft; returns whether it could.
    stop
        Whether time is up; then the best set so far is returned.
    breaks_leases
        Whether started reservations lose their leases in force too.
    level
        A level is not displaced if lower levels suffice.
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
        """Return the best set found; None if displacing all candidates does not suffice.

        Parameters
        ----------
        candidates
            In order of displacement, those of the lowest level first.
        """
        whole = self.without(candidates) if candidates else None
        if whole is None:
            return None
        lifted, found = self._least_level(candidates, whole)
        return self._fewest(lifted, self._trim(found))

    def run_keeping(
        self, candidates: Sequence[Commitment], keeps: Callable[[DraftPlan], bool]
    ) -> Found | None:
        """Return the best set found; if that breaks a rule, one that keeps it, if one is found.

        Parameters
        ----------
        candidates
            In order of displacement, those of the lowest level first.
        keeps
            The rule, for a draft: if a draft keeps it, so does every draft that holds more.
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
            # Every subset of what may be released together may be released too.
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
        """Return candidates whose joint release keeps a rule, in order; `first` too if possible."""
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
        """Return all candidates up to the lowest level that suffices, with the draft.

        Tries few levels in order, more by bisection; the time limit does not apply.
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
        """Return a draft without some reservations in which the requests are placed, or None."""
        draft = self._base.copy()
        for one in commitments:
            self._release(draft, one)
        return (draft, list(commitments)) if self._place(draft) else None

    def _release(self, draft: DraftPlan, one: Commitment) -> None:
        draft.lift(one)
        if one.started and self._breaks_leases:
            draft.strip(one)

    def _fewest(self, lifted: Sequence[Commitment], found: Found) -> Found:
        """Return the smallest set of sizes with few enough sets to try, else the best known."""
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
        """Return the needed part of the shortest prefix that frees enough capacity."""
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
        """Put back those not needed, in reverse order of displacement."""
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
        """Return the sort key of a set: fewer, then lower level, less value, newer."""
        orders = [one.importance for one in commitments]
        levels = sorted(map(self._level, commitments), reverse=True)
        value = round(sum(value for _, value, _ in orders), 6)
        return len(orders), levels, value, sorted(number for _, _, number in orders)


#: Codes of refusals that more capacity would avoid.
FOR_ROOM: Final = frozenset({Code.CAPACITY, Code.CAPACITY_OVER_TIME, Code.QUOTA})

#: Most reservations to consider for one request: those of the lowest priority.
MOST_LOOKED_AT: Final = 400


def may_displace(plan: Plan, requests: Sequence[Request]) -> bool:
    """Return whether policies let requests displace, and there is a reservation to displace."""
    return bool(len(_numbers(plan, requests)))


def candidates_of(plan: Plan, requests: Sequence[Request]) -> list[Commitment]:
    """Return the reservations that may be displaced, in order of displacement.

    The order is `Commitment.importance`. Excludes degraded reservations, holds, and the
    reservations that the requests change.
    """
    numbers = _numbers(plan, requests)
    if len(numbers) > MOST_LOOKED_AT:
        meta = plan.table.meta[numbers]
        order = np.lexsort((-numbers, meta["weight"], meta["priority"]))
        numbers = numbers[order[:MOST_LOOKED_AT]]
    found = [commitment_of(plan, number) for number in numbers.tolist()]
    return sorted(found, key=lambda one: one.importance)


def displaced_reason(came: Sequence[tuple[str, str]], tenant: str) -> str:
    """Return why a reservation was displaced, in words its tenant may read.

    A request of another tenant is not named; of several, those after the first are counted.

    Parameters
    ----------
    came
        Id and tenant of each request that displaced it.
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
    """Return the reservations of lower priority with an allocation inside a request's window."""
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
    """Return bool[reservations]: whether it has an allocation inside any of the windows."""
    meta = plan.table.meta
    inside = np.zeros(len(meta), dtype=bool)
    for request in requests:
        vertices = request.graph.vertices
        if len(vertices):
            first, end = max(plan.now, int(vertices[-1, START])), int(vertices[-1, END])
            inside |= (meta["begin"] < end) & (meta["finish"] > first)
    return inside
