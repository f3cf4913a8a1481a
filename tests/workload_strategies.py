"""Hypothesis strategies of small clusters, and of workloads that such a cluster can often hold."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import cache

from hypothesis import strategies as st

from planner.cluster.cluster import Cluster, MachineGroup, Outage
from planner.cluster.policy import CapacityOverTime, Policy, Quota, Scope
from planner.files import WorkloadLine
from rdl.expressions import (
    AllOf,
    AnyOf,
    Atom,
    Edge,
    Every,
    Expression,
    Gap,
    Graph,
    Offset,
    Order,
    Together,
    Void,
    Window,
)
from rdl.resources import Resources
from rdl.text.formatter import format_expression

SECOND = 1000

STEPS = 24

BUNDLES = tuple(
    Resources.of(amounts)
    for amounts in (
        {"cpu": 1000},
        {"cpu": 500, "memory": 1024},
        {"cpu": 2000, "memory": 3072},
        {"cpu": 1000, "gpu": 1},
    )
)


@st.composite
def atoms(draw: st.DrawFn) -> Atom:
    """Atoms that a small cluster can often hold."""
    multiple = draw(st.sampled_from([1, 1, 1, 2]))
    minimum = draw(st.integers(1, 3)) * multiple
    maximum = minimum + draw(st.sampled_from([0, 0, 1, 3])) * multiple
    lease, work = draw(st.integers(500, 4 * SECOND)), draw(st.integers(1, 20 * SECOND))
    label = draw(st.sampled_from([None, None, None, "fast"]))
    return Atom(draw(st.sampled_from(BUNDLES)), minimum, maximum, lease, work, multiple, label)


@st.composite
def togethers(draw: st.DrawFn) -> Together:
    """Two or three gangs of one length at the same time, some on labelled machines."""
    lease = draw(st.integers(500, 4 * SECOND))
    gangs = []
    for _ in range(draw(st.integers(2, 3))):
        count = draw(st.integers(1, 3))
        label = draw(st.sampled_from([None, None, "fast"]))
        bundle = draw(st.sampled_from(BUNDLES))
        spread = draw(st.sampled_from([0, 0, 1]))
        gangs.append(Atom(bundle, count, count, lease, count * lease, 1, label, spread))
    return Together(tuple(gangs))


# Kept: to make strategies again takes hypothesis longer than to draw from them.
@cache
def gaps() -> st.SearchStrategy[Gap | None]:
    seconds = st.integers(0, 4).map(lambda n: n * SECOND)
    pairs = st.tuples(seconds, seconds).map(lambda ends: Gap(min(ends), max(ends)))
    return st.none() | seconds.map(Gap) | pairs


@st.composite
def windows(draw: st.DrawFn, of: Expression) -> Window:
    start = draw(st.integers(0, STEPS * SECOND // 2))
    length = draw(st.integers(4 * SECOND, STEPS * SECOND))
    return Window(Offset(start), Offset(start + length), of)


@st.composite
def graphs(draw: st.DrawFn, children: tuple[Expression, ...]) -> Graph:
    count = len(children)
    pairs = [(i, j) for j in range(count) for i in range(j)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=4)) if pairs else []
    edges = tuple(Edge(before, after, draw(gaps())) for before, after in chosen)
    return Graph(tuple(f"n{i}" for i in range(count)), children, edges)


@st.composite
def choices(draw: st.DrawFn, options: tuple[Expression, ...]) -> AnyOf:
    worth = st.sampled_from([0.25, 0.5, 1.0])
    prefer = draw(st.none() | st.tuples(*[worth] * len(options)))
    return AnyOf(options, prefer)


@st.composite
def recurrences(draw: st.DrawFn, of: Expression) -> Every:
    times = draw(st.sampled_from([1, 2, 3, None]))
    until = Offset(20 * SECOND) if times is None and draw(st.booleans()) else None
    period = draw(st.sampled_from([6, 8, 12])) * SECOND
    return Every(period, of, times, until, same_offset=draw(st.booleans()))


def operators(children: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(children, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        several.map(AllOf),
        st.tuples(several, gaps()).map(lambda pair: Order(*pair)),
        several.flatmap(choices),
        several.flatmap(graphs),
        children.flatmap(windows),
        children.flatmap(recurrences),
        children.map(lambda child: AllOf((child, Void(BUNDLES[0], 3)))),
    )


@cache
def plannable() -> st.SearchStrategy[Expression]:
    """Expressions of all operators, sized for a small cluster of seconds."""
    return st.recursive(atoms() | atoms() | togethers(), operators, max_leaves=5)


@st.composite
def policies(draw: st.DrawFn) -> tuple[Policy, ...]:
    scope = draw(st.sampled_from([Scope(), Scope(tenant="*"), Scope(tenant="a")]))
    share, mean = draw(st.sampled_from(["0.3", "0.75"])), draw(st.sampled_from(["0.2", "0.5"]))
    window = draw(st.sampled_from([5, 12])) * SECOND
    quota = Quota("quota", scope, (("cpu", draw(st.integers(1, 12)) * 500),))
    return draw(
        st.sampled_from(
            [
                (),
                (),
                (quota,),
                (CapacityOverTime("share", scope, instant=Decimal(share)),),
                (CapacityOverTime("mean", scope, average=Decimal(mean), window_ms=window),),
                (quota, CapacityOverTime("mean", Scope(), None, Decimal(mean), window)),
            ]
        )
    )


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """One to three groups of machines, some with a label, some away for a while."""
    sizes = st.sampled_from(
        [{"cpu": 2000, "memory": 4096}, {"cpu": 4000, "memory": 6144, "gpu": 2}]
    )
    groups = tuple(
        MachineGroup(
            f"g{i}",
            draw(st.integers(1, 4)),
            Resources.of(draw(sizes)),
            draw(st.sampled_from([frozenset(), frozenset({"fast"})])),
        )
        for i in range(draw(st.integers(1, 3)))
    )
    outages = []
    for group in groups:
        if draw(st.booleans()):
            start = draw(st.integers(0, STEPS * SECOND - 1))
            end = start + draw(st.integers(1, 8 * SECOND))
            away = tuple(range(draw(st.integers(0, group.count - 1)), group.count))
            outages.append(Outage(group.name, away, start, min(end, STEPS * SECOND)))
    return Cluster(
        SECOND,
        STEPS * SECOND,
        groups,
        origin=draw(st.sampled_from([None, datetime(2026, 3, 28, 22, tzinfo=UTC)])),
        outages=tuple(outages),
        policies=draw(policies()),
    )


@st.composite
def workloads(draw: st.DrawFn) -> tuple[WorkloadLine, ...]:
    """Up to five requests of two tenants, as their lines would read."""
    return tuple(
        WorkloadLine(
            f"r{i}",
            format_expression(draw(plannable())),
            tenant=draw(st.sampled_from(["a", "b"])),
            submitted_ms=draw(st.sampled_from([0, 0, 1, 2500])),
            weight=draw(st.sampled_from([0.0, 0.5, 1.0])),
            priority=draw(st.integers(0, 1)),
        )
        for i in range(draw(st.integers(1, 5)))
    )
