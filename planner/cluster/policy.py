"""Sharing policies: how much of the cluster a tenant or a queue may use.

Three kinds bound reservations (Rayon 5.1 and 5.2, made exact): `CapacityOverTime` limits the
instant and the average over every sliding window, `Quota` limits the instant at times of day,
`RequestLimits` limits requests. `ApplicationQuota` bounds applications. A policy
counts the use of its scope: `tenant` and `queue` are a name, ``"*"`` for each one separately, or
None for all together. `AgentLimit` bounds the reservations of an agent, and `DisplacementRule` lets
requests displace reservations of lower priority (Omega 3.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from rdl.text_file import name_form

#: Scope that counts each tenant or queue separately.
EACH: Final = "*"

#: Days as written in files, in the order of `datetime.weekday`.
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_DAY = timedelta(days=1)
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Scope:
    """The use that a policy counts: of a name, of ``"*"`` (each one separately) or None (all)."""

    tenant: str | None = None
    queue: str | None = None

    def __post_init__(self) -> None:
        """Normalize the names."""
        for part, name in (("tenant", self.tenant), ("queue", self.queue)):
            object.__setattr__(self, part, name if name is None else name_form(name))

    def key(self, tenant: str, queue: str) -> tuple[str | None, str | None] | None:
        """Return the account that counts use by (tenant, queue), or None outside the scope."""
        if self.tenant not in (None, EACH, tenant) or self.queue not in (None, EACH, queue):
            return None
        return (
            None if self.tenant is None else tenant,
            None if self.queue is None else queue,
        )


@dataclass(frozen=True, slots=True)
class CapacityOverTime:
    """Shares of nominal capacity: at any instant, and on average over any window.

    Attributes
    ----------
    instant
        Largest share of each resource held at any instant, or None.
    average, window_ms
        The integral of the use over any window of exactly `window_ms` is at most
        `average` x `window_ms` x nominal capacity. Both or neither.
    """

    name: str
    scope: Scope
    instant: Decimal | None = None
    average: Decimal | None = None
    window_ms: int | None = None

    def instant_limit(self, nominal: int) -> int | None:
        """Return the largest use of a resource at any instant, rounded down, or None."""
        return None if self.instant is None else int(Fraction(self.instant) * nominal)

    def average_limit(self, nominal: int, window_steps: int) -> int | None:
        """Return the largest integral over a window, in amount-steps rounded down, or None."""
        if self.average is None:
            return None
        return int(Fraction(self.average) * nominal * window_steps)


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits on amounts held at an instant, always or at times of day.

    Attributes
    ----------
    limit
        (resource, largest amount), sorted; a zero forbids it, a resource not named is not limited.
    start, end
        Local times of day between which it applies; `end` at or before `start` runs past midnight.
        Both None is all day.
    days
        Days (0 = Monday) on which the interval starts; empty is every day.
    zone
        IANA zone of the times.
    guarantee, cohort, lend_ms
        For a quota that lends (`planner.cluster.policy`): (resource, amount) that is guaranteed to
        it, sorted; the cohort's name; and how long before an instant the unreserved part may be
        promised to others. Its `limit` bounds its own and borrowed amounts together; a resource not
        named there is bounded by the cohort only.
    """

    name: str
    scope: Scope
    limit: tuple[tuple[str, int], ...]
    start: time | None = None
    end: time | None = None
    days: frozenset[int] = frozenset()
    zone: str = "UTC"
    guarantee: tuple[tuple[str, int], ...] = ()
    cohort: str | None = None
    lend_ms: int = 0

    @property
    def needs_origin(self) -> bool:
        """Whether it applies only at some times, so that the plan needs an origin."""
        return self.start is not None or bool(self.days)

    def intervals(self, origin: datetime, first_ms: int, end_ms: int) -> list[tuple[int, int]]:
        """Return when it applies inside [first_ms, end_ms), in ms from `origin`, sorted, merged.

        Civil time: an interval across a change of the clock is an hour shorter or longer.
        """
        zone = ZoneInfo(self.zone)
        day = (origin + first_ms * _MS).astimezone(zone).date() - _DAY
        found: list[tuple[int, int]] = []
        while True:
            start = local_instant_ms(day, self.start or time(0), zone, origin)
            if start >= end_ms:
                return found
            stop = local_instant_ms(*self._end_of(day), zone, origin)
            low, high = max(start, first_ms), min(stop, end_ms)
            if low < high and (not self.days or day.weekday() in self.days):
                if found and low <= found[-1][1]:
                    found[-1] = (found[-1][0], max(high, found[-1][1]))
                else:
                    found.append((low, high))
            day += _DAY

    def _end_of(self, day: date) -> tuple[date, time]:
        if self.start is None or self.end is None:
            return day + _DAY, time(0)
        return (day if self.end > self.start else day + _DAY), self.end


def local_instant_ms(day: date, at: time, zone: ZoneInfo, origin: datetime) -> int:
    """Return a local time as ms from `origin`: the earlier of two, or the end of a gap."""
    local = datetime.combine(day, at, tzinfo=zone)
    instant = local.astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
        instant = _jump_between(local.replace(fold=1).astimezone(UTC), instant, zone)
    return (instant - origin) // _MS


def _jump_between(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """Return the first instant in (before, after] with the later UTC offset."""
    low, high = 0, int((after - before).total_seconds())
    offset = after.astimezone(zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if (before + timedelta(seconds=middle)).astimezone(zone).utcoffset() == offset:
            high = middle
        else:
            low = middle
    return before + timedelta(seconds=high)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits on single requests, and on the number of live reservations.

    Attributes
    ----------
    max_window_ms
        Longest window of a request.
    min_lead_ms, max_lead_ms
        Shortest and longest time from submission to the start of the window.
    max_count
        Most reservations of the scope that are accepted, active or degraded at the same time.
    max_priority
        Highest priority of a request.
    """

    name: str
    scope: Scope
    max_window_ms: int | None = None
    min_lead_ms: int | None = None
    max_lead_ms: int | None = None
    max_count: int | None = None
    max_priority: int | None = None


@dataclass(frozen=True, slots=True)
class ApplicationQuota:
    """Limits on applications that no reservation covers; the dispatcher enforces them.

    Attributes
    ----------
    limit
        (resource, largest concurrent amount), sorted; a zero forbids it, a resource not named is
        not limited.
    max_count
        Most applications of the scope that wait or run and name no reservation.
    max_run_ms
        Longest run time of an application.
    """

    name: str
    scope: Scope
    limit: tuple[tuple[str, int], ...] = ()
    max_count: int | None = None
    max_run_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AgentLimit:
    """Limits on all reservations that an agent placed.

    Attributes
    ----------
    agent
        Name of the agent, or ``"*"`` for each one separately.
    scope
        All tenants and queues.
    instant
        Largest share of each resource held at any instant, or None.
    limit
        (resource, largest concurrent amount), sorted; a zero forbids it, a resource not named is
        not limited.
    max_count
        Most reservations that are accepted, active or degraded at the same time.
    """

    name: str
    agent: str
    scope: Scope = field(default=Scope())
    instant: Decimal | None = None
    limit: tuple[tuple[str, int], ...] = ()
    max_count: int | None = None

    def amounts(self, nominal: Mapping[str, int]) -> dict[str, int]:
        """Return the largest amount of each limited resource; shares are rounded down.

        Parameters
        ----------
        nominal
            Total of all machines.
        """
        found = dict(self.limit)
        if self.instant is not None:
            share = Fraction(self.instant)
            for resource, amount in nominal.items():
                most = int(share * amount)
                found[resource] = min(most, found.get(resource, most))
        return found


@dataclass(frozen=True, slots=True)
class DisplacementRule:
    """Lets requests of a scope displace reservations of strictly lower priority.

    Attributes
    ----------
    running
        Whether they may also displace reservations that have started.
    """

    name: str
    scope: Scope
    running: bool = False


Policy: TypeAlias = (
    CapacityOverTime | Quota | RequestLimits | ApplicationQuota | AgentLimit | DisplacementRule
)


# Each quota of a cohort guarantees amounts to its tenant or queue. The part that is not reserved
# `lend_ms` before an instant may be promised to others of the cohort. So less than that time ahead,
# an account may hold up to its limit, and all accounts together no more than the sum of all
# guarantees; further ahead, an account may hold only what is guaranteed to it. Both are limits at
# an instant, the first of each account, the second of the cohort; and time only raises them.


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
