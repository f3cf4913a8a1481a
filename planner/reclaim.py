"""Guarantees taken back from borrowers: what makes way for a tenant within its guarantee.

A quota that lends keeps its guarantee only if what others borrow of it makes way when its tenant
asks after all. Where a policy lets the request displace others (`DisplacementRule`), reservations
of accounts that hold more than they are guaranteed make way, whatever their priority: those of the
account with the largest dominant share of what it borrows first, the least important one of it
before the others. Sets that leave each borrower its own guarantee go before others, which may be
needed because reservations are not cut. The request gets no more than its own guarantee.
"""

from __future__ import annotations

from collections.abc import Sequence
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
        Whether reservations that have begun make way, too.
    """

    plan: Plan
    cohort: Cohort
    lender: Quota
    span: tuple[int, int]
    running: bool

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
        return cls(plan, cohort, lender, (first, end), running)

    def borrowers(self) -> list[Commitment]:
        """Return the reservations that may make way, in the order in which they do."""
        plan = self.plan
        shares = {
            member.name: share
            for member in self.cohort.members
            if member.name != self.lender.name and (share := self._borrowed_share(member)) > 0
        }
        states = [State.ACCEPTED, State.ACTIVE] if self.running else [State.ACCEPTED]
        meta, first, end = plan.table.meta, *self.span
        chosen = np.isin(meta["state"], [STATE_NUMBERS[state] for state in states])
        chosen &= (meta["atoms"] > 0) & (meta["begin"] < end) & (meta["finish"] > first)
        ranked: list[tuple[float, Commitment]] = []
        for number in np.flatnonzero(chosen).tolist() if shares else ():
            if number in plan.table.holds:
                continue
            scope = plan.table.scope(number)
            share = max(
                (
                    shares[one.name]
                    for one in self.cohort.members
                    if one.name in shares and one.scope.key(*scope) is not None
                ),
                default=0.0,
            )
            if share:
                ranked.append((share, commitment_of(plan, number)))
        ranked.sort(key=lambda pair: (-pair[0], pair[1].importance))
        return [one for _, one in ranked[:MOST_BORROWERS]]

    def is_within_guarantee(self, ledger: FreeProfile) -> bool:
        """Return whether a ledger leaves the lender no more than its guarantee, or than it had."""
        before = self._used(self.plan.ledger, self.lender)
        after = self._used(ledger, self.lender)
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
            before, own = self._used(self.plan.ledger, member), dict(member.guarantee)
            for name, used in self._used(ledger, member).items():
                if (used < np.minimum(own[name], before[name]))[first:end].any():
                    return False
        return True

    def reason(self, came: Sequence[tuple[str, str]], tenant: str) -> str:
        """Return why a reservation makes way, as its tenant may read it.

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

    def _borrowed_share(self, member: Quota) -> float:
        """Return the largest share of the cohort that a member borrows inside the windows."""
        own, whole = dict(member.guarantee), dict(self.cohort.whole.limit)
        first, end = (step - self.plan.ledger.first for step in self.span)
        shares = [
            (int(used[first:end].max(initial=0)) - own[name]) / whole[name]
            for name, used in self._used(self.plan.ledger, member).items()
            if whole[name]
        ]
        return max(shares, default=0.0)

    @staticmethod
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
    """Return whether requests may take a guarantee back, and some borrower could make way."""
    if not plan.cluster.cohorts:
        return False
    reclaim = Reclaim.of(plan, requests)
    return reclaim is not None and bool(reclaim.borrowers())
