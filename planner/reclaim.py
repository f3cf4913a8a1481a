"""Guarantees taken back from borrowers: what gives way for a tenant within its guarantee.

A quota that lends keeps its guarantee only if what others borrow of it gives way when its tenant
asks after all. Where a policy lets the request displace others (`DisplacementRule`), reservations
of accounts that hold more than they are guaranteed give way, whatever their priority: those of the
account with the largest dominant share of what it borrows first, the least important one of it
before the others, as few as possible. Where these take from a borrower of its own guarantee, others
that do not are sought; if none are found they give way after all, for reservations are not cut. The
request gets no more than its own guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.capacity.capacity_rows import limit_of
from planner.capacity.profile import FreeProfile
from planner.cluster.cohort import Cohort
from planner.cluster.policy import Quota
from planner.plan.plan import Plan
from planner.replanning.commitment import Commitment, commitment_of
from planner.request import Request
from planner.reservations.state import STATE_NUMBERS, State
from rdl.work_graph import END, START

#: Most reservations of borrowers that are looked at for one request.
MOST_BORROWERS = 400


@dataclass(frozen=True, slots=True)
class Reclaim:
    """What requests may take back of what their account has lent.

    Attributes
    ----------
    plan
        As it is before.
    cohort, lender
        The quota that all of the requests count in, and its cohort.
    span
        First step and end of their windows together, from the present on.
    running
        Whether reservations that have begun give way, too.
    shares
        Dominant share of the cohort that each other quota borrows in the span, by name; those that
        borrow nothing are left out.
    """

    plan: Plan
    cohort: Cohort
    lender: Quota
    span: tuple[int, int]
    running: bool
    shares: Mapping[str, float]

    @classmethod
    def of(cls, plan: Plan, requests: Sequence[Request]) -> Reclaim | None:
        """Return what requests may take back; None if no policy lets them take anything back."""
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
        """Return the reservations that may give way, in the order in which they do."""
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
        """Return when a borrower gives way: of larger shares first, then of less priority."""
        return -self._share_of(one.tenant, one.queue), one.priority

    def _share_of(self, tenant: str, queue: str) -> float:
        """Return the largest share that a quota borrows in which a reservation counts."""
        members = [one for one in self.cohort.members if one.name in self.shares]
        return max(
            (self.shares[one.name] for one in members if one.scope.key(tenant, queue) is not None),
            default=0.0,
        )

    def is_within_guarantee(self, ledger: FreeProfile) -> bool:
        """Return whether a ledger leaves the lender no more than its guarantee, or than it had."""
        before = _used(self.plan.ledger, self.lender)
        after = _used(ledger, self.lender)
        own = dict(self.lender.guarantee)
        first, end = (step - ledger.first for step in self.span)
        return all(
            bool((used <= np.maximum(own[name], before[name]))[first:end].all())
            for name, used in after.items()
        )

    def leaves_guarantees(self, ledger: FreeProfile) -> bool:
        """Return whether a ledger takes from no other account below what it is guaranteed."""
        first, end = (step - ledger.first for step in self.span)
        for member in self.cohort.members:
            before, own = _used(self.plan.ledger, member), dict(member.guarantee)
            for name, used in _used(ledger, member).items():
                if (used < np.minimum(own[name], before[name]))[first:end].any():
                    return False
        return True

    def reason(self, came: Sequence[tuple[str, str]], tenant: str) -> str:
        """Return why a reservation gives way, as its tenant may read it.

        Parameters
        ----------
        came
            Id and tenant of what took its place.
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
    """Return by resource int64[steps]: what an account holds, from the first step on."""
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
    """Return whether requests may take a guarantee back, and some borrower could give way."""
    if not plan.cluster.cohorts:
        return False
    reclaim = Reclaim.of(plan, requests)
    return reclaim is not None and bool(reclaim.borrowers())
