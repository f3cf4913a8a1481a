"""Reclaim guarantees: displace reservations of borrowers for a tenant within its guarantee.

The guarantee of a quota that lends is kept only if borrowers are displaced when its tenant requests
it after all. If a policy lets the request displace others (`DisplacementRule`), reservations of
accounts that hold more than their guarantee are displaced at any priority: first those of
the account with the largest dominant share of borrowed amounts, there the least important first,
and as few as possible. If this takes a borrower below its own guarantee, other sets are searched;
if there are none, it is displaced nevertheless, since reservations are not cut. The request gets no
more than its own guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.capacity.capacity_rows import limit_of
from planner.capacity.profile import FreeProfile
from planner.cluster.policy import Cohort, Quota
from planner.plan.plan import Plan
from planner.replanning.commitment import Commitment, commitment_of
from planner.request import Request
from planner.reservations.state import STATE_NUMBERS, State
from rdl.work_graph import END, START

#: Most reservations of borrowers to consider for one request.
MOST_BORROWERS = 400


@dataclass(frozen=True, slots=True)
class Reclaim:
    """The lent capacity that requests of its account may reclaim.

    Attributes
    ----------
    plan
        The Plan before the change.
    cohort, lender
        The quota that counts all of the requests, and its cohort.
    span
        First step and end step of all their windows, from the present on.
    running
        Whether started reservations may be displaced too.
    shares
        Dominant share of the cohort that each other quota borrows in the span, by name; only of
        borrowers.
    """

    plan: Plan
    cohort: Cohort
    lender: Quota
    span: tuple[int, int]
    running: bool
    shares: Mapping[str, float]

    @classmethod
    def of(cls, plan: Plan, requests: Sequence[Request]) -> Reclaim | None:
        """Return the capacity that requests may reclaim; None if no policy lets them reclaim
        anything."""
        found: set[tuple[str, str]] = set()
        running = True
        for request in requests:
            scope = request.tenant, request.queue
            rules = [r for r in plan.cluster.displacement_rules if r.scope.key(*scope) is not None]
            lenders = [
                (cohort.name, member.name)
                for cohort in plan.cluster.cohorts.values()
                for member in cohort.members
                if member.scope.key(*scope) is not None
            ]
            if not rules or len(lenders) != 1:
                return None
            running = running and any(rule.running for rule in rules)
            found.add(lenders[0])
        if len(found) != 1:
            return None
        name, quota = found.pop()
        cohort = plan.cluster.cohorts[name]
        lender = next(one for one in cohort.members if one.name == quota)
        vertices = [one.graph.vertices[-1] for one in requests if len(one.graph.vertices)]
        first = max(plan.now, min((int(one[START]) for one in vertices), default=0))
        end = max((int(one[END]) for one in vertices), default=first)
        shares = {
            member.name: share
            for member in cohort.members
            if member.name != quota
            and (share := _borrowed_share(plan, cohort, member, (first, end))) > 0
        }
        return cls(plan, cohort, lender, (first, end), running, shares)

    def borrowers(self) -> list[Commitment]:
        """Return the reservations that may be displaced, in order of displacement."""
        plan = self.plan
        states = [State.ACCEPTED, State.ACTIVE] if self.running else [State.ACCEPTED]
        meta, first, end = plan.table.meta, *self.span
        chosen = np.isin(meta["state"], [STATE_NUMBERS[state] for state in states])
        chosen &= (meta["atoms"] > 0) & (meta["begin"] < end) & (meta["finish"] > first)
        found = [
            commitment_of(plan, number)
            for number in (np.flatnonzero(chosen).tolist() if self.shares else ())
            if number not in plan.table.holds and self._share_of(*plan.table.scope(number))
        ]
        found.sort(key=lambda one: (self.level(one), one.importance))
        return found[:MOST_BORROWERS]

    def level(self, one: Commitment) -> tuple[float, ...]:
        """Return the level of a borrower: larger shares first, then lower priorities."""
        return -self._share_of(one.tenant, one.queue), one.priority

    def _share_of(self, tenant: str, queue: str) -> float:
        """Return the largest borrowed share of the quotas that count a reservation."""
        members = [one for one in self.cohort.members if one.name in self.shares]
        return max(
            (self.shares[one.name] for one in members if one.scope.key(tenant, queue) is not None),
            default=0.0,
        )

    def is_within_guarantee(self, ledger: FreeProfile) -> bool:
        """Return whether the lender stays within its guarantee, or its earlier use, in a ledger."""
        before = _used(self.plan.ledger, self.lender)
        after = _used(ledger, self.lender)
        own = dict(self.lender.guarantee)
        first, end = (step - ledger.first for step in self.span)
        return all(
            bool((used <= np.maximum(own[name], before[name]))[first:end].all())
            for name, used in after.items()
        )

    def leaves_guarantees(self, ledger: FreeProfile) -> bool:
        """Return whether a ledger leaves all other accounts their guarantees."""
        first, end = (step - ledger.first for step in self.span)
        for member in self.cohort.members:
            before, own = _used(self.plan.ledger, member), dict(member.guarantee)
            for name, used in _used(ledger, member).items():
                if (used < np.minimum(own[name], before[name]))[first:end].any():
                    return False
        return True

    def reason(self, came: Sequence[tuple[str, str]], tenant: str) -> str:
        """Return why a reservation is displaced, in words its tenant may read.

        Parameters
        ----------
        came
            Id and tenant of each request that displaced it.
        """
        own = [id_ for id_, theirs in came if theirs == tenant]
        first = own[0] if own else "a request of another tenant"
        return (
            f"it had borrowed in cohort {self.cohort.name}; {first} took back what is guaranteed "
            f"by {self.lender.name}"
        )


def _borrowed_share(plan: Plan, cohort: Cohort, member: Quota, span: tuple[int, int]) -> float:
    """Return the largest share of a cohort that a member borrows in a span of steps."""
    own, whole = dict(member.guarantee), dict(cohort.whole.limit)
    first, end = (step - plan.ledger.first for step in span)
    shares = [
        (int(used[first:end].max(initial=0)) - own[name]) / whole[name]
        for name, used in _used(plan.ledger, member).items()
        if whole[name]
    ]
    return max(shares, default=0.0)


def _used(ledger: FreeProfile, member: Quota) -> dict[str, NDArray[np.int64]]:
    """Return the use by an account as int64[steps] by resource, from the first step on."""
    book = ledger.book
    policy = next(one for one in book.cluster.policies if one.name == member.name)
    assert isinstance(policy, Quota)
    return {
        account.resource: limit_of(
            book.rows[account.row], ledger.calendar, ledger.grid, ledger.first
        )
        - ledger.free[account.row]
        for account in book.accounts_of(policy)
    }


def may_reclaim(plan: Plan, requests: Sequence[Request]) -> bool:
    """Return whether requests may reclaim a guarantee, and there is a borrower to displace."""
    if not plan.cluster.cohorts:
        return False
    reclaim = Reclaim.of(plan, requests)
    return reclaim is not None and bool(reclaim.borrowers())
