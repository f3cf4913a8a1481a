"""Options of a dispatcher, and their derivation from a cluster's dispatch policy."""

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
    """Order of service of executions without cover: the lower number first."""

    BEST_EFFORT = 0
    ABOVE = 1  # of a reservation with an entitlement now that does not cover it
    LATER = 2  # of a reservation that has not begun


@dataclass(frozen=True, slots=True)
class LineOptions:
    """Rules for executions without cover: which of them run, and in which order.

    Attributes
    ----------
    ordering
        Order within a tier.
    best_effort, best_effort_elastic, above, later
        Whether to serve core components of best effort; its elastic components; production beyond
        its entitlement; and work of later reservations.
    interactive_first
        Whether interactive applications go before batch ones of equal priority.
    allocation
        How elastic components are granted.
    by_class
        Whether executions wait in queues by class, among which machines choose (LoTES 4.3); the
        ordering then applies only to elastic components.
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
        """Return the rank of an application within its tier; the higher rank goes first."""
        priority = application.priority if self.ordering.by_priority else 0
        interactive = self.interactive_first and application.kind is Kind.INTERACTIVE
        return 2 * priority + interactive

    def serves(self, tier: Tier) -> bool:
        """Return whether a tier is served."""
        return (self.best_effort, self.above, self.later)[tier]


class GrowthRule(StrEnum):
    """Limit of growth (Omega 6.1)."""

    NONE = "none"
    MAX_PARALLELISM = "max_parallelism"  # up to each component's own limit
    GLOBAL_CAP = "global_cap"  # while less than a share of the machines is used
    RELATIVE_SIZE = "relative_size"  # to a multiple of the requested count


@dataclass(frozen=True, slots=True)
class GrowthOptions:
    """Limit of growth.

    Attributes
    ----------
    below
        For `GLOBAL_CAP`: share of each resource of the machines that are up.
    times
        For `RELATIVE_SIZE`: components of a group, including growth, divided by the requested
        number.
    """

    rule: GrowthRule = GrowthRule.RELATIVE_SIZE
    below: float = 0.6
    times: int = 4

    def most(self, component: Component) -> int:
        """Return how many replicas of a component may run beyond the requested count."""
        if self.rule is GrowthRule.NONE or component.core:
            return 0
        if self.rule is GrowthRule.RELATIVE_SIZE:
            return min(component.grow, (self.times - 1) * component.count)
        return component.grow


@dataclass(frozen=True, slots=True)
class DispatchOptions:
    """Options of a dispatcher.

    Attributes
    ----------
    policy
        Placement strategy; ``lotes`` follows the directive's dispatch table.
    line
        Rules for executions without cover: which of them run, and in which order.
    quotas
        Quotas on applications without cover.
    growth
        Limit of growth into idle capacity.
    """

    policy: Policy = "best_fit"
    line: LineOptions = field(default_factory=LineOptions)
    quotas: tuple[ApplicationQuota, ...] = ()
    growth: GrowthOptions = field(default_factory=GrowthOptions)


_PLACEMENTS: Final[dict[str, Policy]] = {name: name for name in POLICIES}


def options_of(cluster: Cluster) -> DispatchOptions:
    """Return the options in a cluster's dispatch policy and quotas on applications."""
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
