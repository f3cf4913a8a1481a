"""Size a cluster: the smallest number of machines that accepts a share of a workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from planner.agent import Agent, Limits
from planner.cluster.cluster import Cluster, ClusterError, MachineGroup, Outage
from planner.files.workload_file import WorkloadLine
from planner.placement import Code
from planner.value import size_of
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_from_nothing

#: Unit of the accepted share: core-hours of the requests, or requests.
Counted = Literal["work", "requests"]

#: Maximum number of machines tried, as a multiple of the described number.
MOST_TIMES: Final = 64

#: Refusals that more machines can turn into acceptances.
_BY_SIZE: Final = frozenset(
    {Code.CAPACITY, Code.CAPACITY_OVER_TIME, Code.QUOTA, Code.UNSATISFIABLE, Code.TIME_LIMIT}
)


@dataclass(frozen=True, slots=True)
class TriedSize:
    """A number of machines, and the accepted part of the workload.

    Attributes
    ----------
    machines
        Number of machines in each group.
    accepted, requests
        Counts of requests.
    work, asked
        Core-hours accepted, and of all requests that some tried size could plan.
    refused
        Counts of requests by the code of the refusal, the most frequent first.
    """

    machines: dict[str, int]
    accepted: int
    requests: int
    work: float
    asked: float
    refused: dict[str, int]

    @property
    def total(self) -> int:
        """The number of machines."""
        return sum(self.machines.values())

    def share(self, counted: Counted) -> float:
        """Return the accepted share, 0 to 1; 1 if nothing is requested."""
        part, whole = (
            (self.work, self.asked) if counted == "work" else (self.accepted, self.requests)
        )
        return part / whole if whole else 1.0

    def to_json(self) -> dict[str, Any]:
        """Return the size as a plain object."""
        return {
            "machines": self.total,
            "groups": self.machines,
            "accepted": self.accepted,
            "requests": self.requests,
            "requests_share": round(self.share("requests"), 4),
            "work_core_hours": round(self.work, 3),
            "work_share": round(self.share("work"), 4),
            "refused": self.refused,
        }


@dataclass(frozen=True, slots=True)
class Sizing:
    """The result of sizing a cluster.

    Attributes
    ----------
    found
        The smallest tried number that accepts the target; None if none does.
    tried
        All sizes, in ascending order. Heuristics are not monotone: a size below `found` that was
        not tried may accept the target too.
    is_complete
        Whether the search ended; a stopped one returns the smallest size found so far.
    """

    found: TriedSize | None
    tried: tuple[TriedSize, ...]
    is_complete: bool


@dataclass(slots=True)
class _Search:
    """Plans the workload on clusters of different sizes, once per size."""

    cluster: Cluster
    lines: Sequence[WorkloadLine]
    agent: Agent
    limits: Limits
    group: str | None
    report: Callable[[TriedSize], None]
    tried: dict[int, TriedSize] = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)
    can_grow: bool = True

    def try_size(self, machines: int) -> TriedSize | None:
        """Return the result for a number of machines of the varied groups; None if stopped."""
        if machines in self.tried:
            return self.tried[machines]
        cluster = with_machines(self.cluster, machines, self.group)
        workload = compile_workload(self.lines, cluster)
        planned = plan_from_nothing(cluster, workload, self.agent, self.limits)
        if self.is_stopped:
            return None
        for request in workload.requests:
            self.sizes.setdefault(request.id, size_of(request.graph, cluster.reference))
        accepted = [
            request.id
            for request, result in zip(workload.requests, planned.results, strict=True)
            if result.placed
        ]
        codes = Counter(one.code for one in planned.results if one.code is not None)
        codes.update(one.code for one in workload.refusals)
        self.can_grow = bool(codes.keys() & _BY_SIZE)
        size = TriedSize(
            {group.name: group.count for group in cluster.machines},
            len(accepted),
            workload.count,
            sum(self.sizes[id_] for id_ in accepted),
            sum(self.sizes.values()),
            {code.value: count for code, count in codes.most_common()},
        )
        self.tried[machines] = size
        self.report(size)
        return size

    def learn_sizes(self, machines: int) -> None:
        """Record the sizes of requests that only a larger cluster can accept."""
        with suppress(ClusterError):  # the total exceeds the supported maximum
            cluster = with_machines(self.cluster, machines, self.group)
            for request in compile_workload(self.lines, cluster).requests:
                self.sizes.setdefault(request.id, size_of(request.graph, cluster.reference))

    @property
    def is_stopped(self) -> bool:
        """Whether the caller has stopped the search."""
        return self.limits.stop is not None and self.limits.stop()

    def result(self, counted: Counted, target: float, *, is_complete: bool) -> Sizing:
        """Return the result from the tried sizes; shares refer to the requests that any of them
        could plan."""
        asked = sum(self.sizes.values())
        tried = [replace(self.tried[n], asked=asked) for n in sorted(self.tried)]
        enough = (one for one in tried if one.share(counted) >= target)
        return Sizing(next(enough, None), tuple(tried), is_complete)


def size_cluster(
    cluster: Cluster,
    lines: Iterable[WorkloadLine],
    agent: Agent,
    target: float,
    *,
    counted: Counted = "work",
    group: str | None = None,
    limits: Limits | None = None,
    report: Callable[[TriedSize], None] = lambda _: None,
) -> Sizing:
    """Return the smallest number of machines on which an agent accepts a share of a workload.

    Doubles from the described number until the target is met, then bisects.

    Parameters
    ----------
    target
        Share to accept, above 0 and at most 1.
    group
        The machine group that changes; None scales all groups by one factor.
    limits
        Limits of each run of the agent; `stop` ends the search.
    report
        Called with each tried size.
    """
    search = _Search(cluster, list(lines), agent, limits or Limits(), group, report)
    base = _varied(cluster, group)
    search.learn_sizes(MOST_TIMES * base)

    def is_enough(machines: int) -> bool:
        size = search.try_size(machines)
        return size is not None and size.share(counted) >= target

    low, high = 0, base
    while not search.is_stopped and not is_enough(high):
        if high >= MOST_TIMES * base or not search.can_grow:
            return search.result(counted, target, is_complete=True)
        low, high = high, min(2 * high, MOST_TIMES * base)
    while high - low > 1 and not search.is_stopped:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return search.result(counted, target, is_complete=not search.is_stopped)


def try_sizes(
    cluster: Cluster,
    lines: Iterable[WorkloadLine],
    agent: Agent,
    counts: Iterable[int],
    *,
    group: str | None = None,
    limits: Limits | None = None,
    report: Callable[[TriedSize], None] = lambda _: None,
) -> tuple[TriedSize, ...]:
    """Return the result for each number of machines, in ascending order; fewer if stopped."""
    search = _Search(cluster, list(lines), agent, limits or Limits(), group, report)
    search.learn_sizes(MOST_TIMES * _varied(cluster, group))
    for count in counts:
        if search.is_stopped:
            break
        search.try_size(count)
    return search.result("work", 0.0, is_complete=True).tried


def with_machines(cluster: Cluster, machines: int, group: str | None = None) -> Cluster:
    """Return the cluster with another number of machines.

    Without a `group` all groups change by one factor, with the remainder going to the largest
    fractions; each group has at least one machine if there are enough. Outages apply to the
    remaining machines.
    """
    groups = cluster.machines
    if group is None:
        counts = _apportioned([one.count for one in groups], machines)
    else:
        counts = [machines if one.name == group else one.count for one in groups]
    kept = [replace(one, count=n) for one, n in zip(groups, counts, strict=True)]
    return replace(cluster, machines=tuple(kept), outages=_outages_of(cluster, kept), absent=())


def _varied(cluster: Cluster, group: str | None) -> int:
    return sum(one.count for one in cluster.machines if group in (None, one.name))


def _apportioned(counts: Sequence[int], total: int) -> list[int]:
    """Return integers in the proportion of `counts` that add up to `total`."""
    whole = sum(counts)
    exact = [total * count / whole for count in counts]
    parts = [int(one) for one in exact]
    order = sorted(range(len(counts)), key=lambda i: (parts[i] > 0, parts[i] - exact[i]))
    for index in order[: total - sum(parts)]:
        parts[index] += 1
    return parts


def _outages_of(cluster: Cluster, groups: Sequence[MachineGroup]) -> tuple[Outage, ...]:
    sizes = cluster.sizes() | {one.name: one.count for one in groups}
    left = (
        replace(one, indices=tuple(i for i in one.indices if i < sizes[one.machines]))
        for one in cluster.outages
    )
    return tuple(one for one in left if one.indices)
