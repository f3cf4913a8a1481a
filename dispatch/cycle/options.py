"""How a dispatcher works, and what the words of a cluster's dispatch policy mean for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Final

from dispatch.applications.application import Application, Component, Kind
from dispatch.machines.placement.policy import POLICIES, Policy
from dispatch.pool.claims import GrantRule
from dispatch.pool.ordering import ORDERINGS, Ordering, ordering_named
from planner.cluster.dispatch_policy import BY_CLASS
from planner.cluster.policy import ApplicationQuota

if TYPE_CHECKING:
    from planner.cluster.cluster import Cluster
    from planner.cluster.dispatch_policy import DispatchPolicy


class Tier(IntEnum):
    """The order of service of those without cover: the lower number first."""

    BEST_EFFORT = 0
    ABOVE = 1  # of a reservation that is entitled to something now, but not to this
    LATER = 2  # of a reservation whose time has not come


@dataclass(frozen=True, slots=True)
class LineOptions:
    """Which executions run without cover, and in which order.

    Attributes
    ----------
    ordering
        Of those in one tier.
    best_effort, best_effort_elastic, above, later
        Whether cores of best effort are served; its elastic components; production above its
        entitlement; and work of later reservations.
    interactive_first
        Whether an interactive application goes before a batch one of equal priority.
    allocation
        How elastic components are granted.
    by_class
        Whether executions wait in queues of their classes, among which machines choose (LoTES
        4.3); the ordering then counts for elastic components only.
    """

    ordering: Ordering = ORDERINGS["fifo"]
    by_class: bool = False
    best_effort: bool = True
    best_effort_elastic: bool = True
    above: bool = True
    later: bool = True
    interactive_first: bool = False
    allocation: GrantRule = GrantRule.FLEXIBLE

    def rank(self, application: Application) -> int:
        """Return where an application goes within its tier; higher goes first."""
        priority = application.priority if self.ordering.by_priority else 0
        interactive = self.interactive_first and application.kind is Kind.INTERACTIVE
        return 2 * priority + interactive

    def serves(self, tier: Tier) -> bool:
        """Return whether a tier is served."""
        return (self.best_effort, self.above, self.later)[tier]


class GrowthRule(StrEnum):
    """How far applications grow (Omega 6.1)."""

    NONE = "none"
    MAX_PARALLELISM = "max_parallelism"  # as far as each says
    GLOBAL_CAP = "global_cap"  # while less of the machines than a share is held
    RELATIVE_SIZE = "relative_size"  # to this many times what each asked for


@dataclass(frozen=True, slots=True)
class GrowthOptions:
    """How far applications grow.

    Attributes
    ----------
    below
        Of `GLOBAL_CAP`: share of each resource of the machines that are up.
    times
        Of `RELATIVE_SIZE`: components of a group, grown ones included, over those asked for.
    """

    rule: GrowthRule = GrowthRule.RELATIVE_SIZE
    below: float = 0.6
    times: int = 4

    def most(self, component: Component) -> int:
        """Return how many likes of a component may run above what was requested."""
        if self.rule is GrowthRule.NONE or component.core:
            return 0
        if self.rule is GrowthRule.RELATIVE_SIZE:
            return min(component.grow, (self.times - 1) * component.count)
        return component.grow


@dataclass(frozen=True, slots=True)
class DispatchOptions:
    """How a dispatcher works.

    Attributes
    ----------
    policy
        Strategy that finds machines; ``lotes`` follows the directive's dispatch table.
    line
        Which executions run without cover, and in which order.
    quotas
        What applications may take without cover.
    growth
        How far applications grow into what is idle.
    """

    policy: Policy = "best_fit"
    line: LineOptions = field(default_factory=LineOptions)
    quotas: tuple[ApplicationQuota, ...] = ()
    growth: GrowthOptions = field(default_factory=GrowthOptions)


_PLACEMENTS: Final[dict[str, Policy]] = {name: name for name in POLICIES}


def options_of(cluster: Cluster) -> DispatchOptions:
    """Return what a cluster's dispatch policy and its quotas on applications ask for."""
    words = cluster.dispatch
    by_class = words.order == BY_CLASS
    line = LineOptions(
        ordering_named(
            "fifo" if by_class else words.order,
            preemptive=words.preempt,
            by_priority=words.by_priority or None,
        ),
        by_class,
        interactive_first=words.interactive_first,
        allocation=_grant_rule(words),
    )
    quotas = cluster.application_quotas
    growth = GrowthOptions(GrowthRule(words.grow), words.grow_below, words.grow_times)
    return DispatchOptions(_PLACEMENTS[words.placement], line, quotas, growth)


def _grant_rule(words: DispatchPolicy) -> GrantRule:
    if words.allocation == "malleable":
        return GrantRule.MALLEABLE
    return GrantRule.FLEXIBLE if words.reclaim else GrantRule.GROW_ONLY
