"""Laws that every agent keeps on random clusters, random loads and random requests."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.agent import Limits
from planner.agents import AGENT_NAMES, agent_named
from planner.cluster import Cluster, MachineGroup, Outage
from planner.files import WorkloadLine
from planner.plan.changes import Admit
from planner.plan.plan import Plan
from planner.policy import CapacityOverTime, Policy, Quota, Scope
from planner.validation.validate import validate
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_from_nothing
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
    Void,
    Window,
)
from rdl.resources import Resources
from rdl.text.formatter import format_expression
from tests.contract.scenarios import SOLVERS

#: Work and not time, so that runs repeat.
LIMITS = Limits(work=40, seed=1)

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


# Kept: to make strategies anew takes hypothesis longer than to draw from them.
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
    return st.recursive(atoms(), operators, max_leaves=5)


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


def plan(cluster: Cluster, lines: tuple[WorkloadLine, ...], agent: str) -> dict[str, Any]:
    """Return the plan file of a workload, apart from its running time."""
    workload = compile_workload(lines, cluster)
    planned = plan_from_nothing(cluster, workload, agent_named(agent), LIMITS, timer=lambda: 0.0)
    return planned.document.to_json()


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

#: Enough to meet every operator with every kind of cluster; the same examples in every run.
LAWS = settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
FEW = settings(LAWS, max_examples=15)
MANY = settings(LAWS, max_examples=3000)

#: `portfolio-count` makes the runs of `portfolio` and only judges them otherwise.
AGENTS = [name for name in AGENT_NAMES if name != "portfolio-count"]
GREEDY = sorted(set(AGENTS) - SOLVERS)


def assert_valid(agent: str, cluster: Cluster, lines: tuple[WorkloadLine, ...]) -> None:
    """Hold a plan against the validator."""
    document = plan(cluster, lines, agent)
    assert validate(document, asked=[line.id for line in lines]) == []


@pytest.mark.parametrize("agent", GREEDY)
@LAWS
@given(cluster=clusters(), lines=workloads())
def test_plans_are_valid(agent: str, cluster: Cluster, lines: tuple[WorkloadLine, ...]) -> None:
    """Never over capacity, fit caps or policies; always satisfying the oracle; each id once."""
    assert_valid(agent, cluster, lines)


@pytest.mark.parametrize("agent", sorted(SOLVERS))
@FEW
@given(cluster=clusters(), lines=workloads())
def test_solved_plans_are_valid(
    agent: str, cluster: Cluster, lines: tuple[WorkloadLine, ...]
) -> None:
    """The same for agents that solve, which take longer over each."""
    assert_valid(agent, cluster, lines)


@pytest.mark.sweep
@pytest.mark.parametrize("agent", AGENTS)
@MANY
@given(cluster=clusters(), lines=workloads())
def test_plans_are_valid_at_length(
    agent: str, cluster: Cluster, lines: tuple[WorkloadLine, ...]
) -> None:
    """The same over thousands of examples."""
    assert_valid(agent, cluster, lines)


@pytest.mark.parametrize("agent", AGENTS)
@FEW
@given(cluster=clusters(), lines=workloads())
def test_plans_repeat(agent: str, cluster: Cluster, lines: tuple[WorkloadLine, ...]) -> None:
    """The same input and seed give the same plan file."""
    assert plan(cluster, lines, agent) == plan(cluster, lines, agent)


@pytest.mark.parametrize("agent", AGENTS)
@FEW
@given(cluster=clusters(), lines=workloads(), extra=workloads())
def test_later_requests_take_nothing_from_earlier_ones(
    agent: str,
    cluster: Cluster,
    lines: tuple[WorkloadLine, ...],
    extra: tuple[WorkloadLine, ...],
) -> None:
    """A batch that is planned after another leaves the other's reservations as they are."""
    workload = compile_workload(lines, cluster)
    first = plan_from_nothing(cluster, workload, agent_named(agent), LIMITS)
    later: Plan = first.plan
    before = [entry.to_json(later.grid) for entry in later.reservations()]
    renamed = [WorkloadLine(f"x{i}", line.source) for i, line in enumerate(extra)]
    requests = compile_workload(renamed, cluster).requests
    results = agent_named(agent).plan(requests, later.view(), LIMITS)
    changes = [
        Admit(request, result, agent)
        for request, result in zip(requests, results, strict=True)
        if result.placed
    ]
    prepared = later.prepare(changes, later.version)
    assert not prepared.conflicts
    if prepared.record is not None:
        later.apply(prepared.record)
    after = [entry.to_json(later.grid) for entry in later.reservations()]
    assert after[: len(before)] == before
    document = first.document.to_json() | {"reservations": after, "metrics": None}
    assert validate(document) == []
