"""Cohorts: quotas that lend each other what their tenants have not reserved.

Each quota of a cohort guarantees amounts to its tenant or queue. The part that is not reserved
`lend_ms` before an instant may be promised to others of the cohort. So less than that time ahead,
an account may hold up to its limit, and all accounts together no more than the sum of all
guarantees; further ahead, an account may hold only what is guaranteed to it. Both are limits at an
instant, the first of each account, the second of the cohort; and time only raises them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.cluster.policy import Quota, Scope

if TYPE_CHECKING:
    from planner.cluster.policy import Policy


@dataclass(frozen=True, slots=True)
class Cohort:
    """Quotas that lend to each other.

    Attributes
    ----------
    name
        As the quotas have it.
    members
        In the order of the policies.
    whole
        Limit of all members together at an instant: the sum of their guarantees.
    """

    name: str
    members: tuple[Quota, ...]
    whole: Quota

    def lends_to(self, member: Quota, resource: str) -> int:
        """Return the largest amount of a resource for a member, borrowed amounts included."""
        most = dict(self.whole.limit)[resource]
        return min(most, dict(member.limit).get(resource, most))


def cohorts_of(policies: Iterable[Policy]) -> dict[str, Cohort]:
    """Return the cohorts by name; each member has a guarantee for each resource of its cohort."""
    members: dict[str, list[Quota]] = {}
    for policy in policies:
        if isinstance(policy, Quota) and policy.cohort is not None:
            members.setdefault(policy.cohort, []).append(policy)
    found: dict[str, Cohort] = {}
    for name, quotas in members.items():
        totals: dict[str, int] = {}
        for quota in quotas:
            for resource, amount in quota.guarantee:
                totals[resource] = totals.get(resource, 0) + amount
        whole = Quota(f"cohort {name}", Scope(), tuple(sorted(totals.items())))
        full = tuple(
            replace(
                quota,
                guarantee=tuple(sorted((dict.fromkeys(totals, 0) | dict(quota.guarantee)).items())),
            )
            for quota in quotas
        )
        found[name] = Cohort(name, full, whole)
    return found
