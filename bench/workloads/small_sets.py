"""Sets of 5 to 20 requests that are large relative to the cluster, of other shapes.

Two kinds of machines, one of which has a label, and some of the first away for a while. Requests
nest orders, graphs, groups and choices, with gaps between; three atoms in ten are rigid gangs, an
eighth to a half of the cluster high; windows begin in the first half of the horizon and leave 1.2
to 3 times what the request takes alone. Of four seeds one has blocks only, one malleable atoms
only, one both, one both and requests that recur.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.cluster.cluster import Cluster, MachineGroup, Outage
from planner.request import Request
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.compile.shapes import least_reachable
from rdl.errors import RdlError
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
    Window,
)
from rdl.resources import Resources
from rdl.work_graph import WorkGraph

#: Seeds of the whole set: rules are chosen on the first half, figures are of the second.
SEEDS: Final = tuple(range(1, 101))
CHOSEN_ON: Final = SEEDS[:50]
REPORTED_ON: Final = SEEDS[50:]

STEP_MS: Final = 60_000
_STEPS_A_REQUEST: Final = 4
_FEWEST_STEPS: Final = 24

_GROUPS: Final = (
    MachineGroup("plain", 6, Resources.of({"cpu": 16_000, "memory": 32 * 1024})),
    MachineGroup(
        "large", 3, Resources.of({"cpu": 16_000, "memory": 128 * 1024}), frozenset({"large"})
    ),
)
_CORES: Final = 16 * sum(group.count for group in _GROUPS)
_LARGE_CORES: Final = 16 * _GROUPS[1].count
_LIGHT: Final = Resources.of({"cpu": 1000, "memory": 2048})
_HEAVY: Final = Resources.of({"cpu": 1000, "memory": 6144})

_DEEPEST: Final = 2
_GANGS: Final = 0.3
_LABELLED: Final = 0.15
_TRIES: Final = 100


@dataclass(frozen=True, slots=True)
class _SmallShape:
    """What the requests of a set are made of.

    Attributes
    ----------
    gangs
        Share of the atoms that are rigid.
    recurring
        Share of the requests that recur.
    """

    gangs: float
    recurring: float


_SHAPES: Final = (
    _SmallShape(1.0, 0.0),
    _SmallShape(0.0, 0.0),
    _SmallShape(_GANGS, 0.0),
    _SmallShape(_GANGS, 0.3),
)


def small_set(seed: int) -> tuple[Cluster, list[Request]]:
    """Return the cluster and the requests of a seed."""
    rng = np.random.default_rng(seed)
    count = 5 + int(rng.integers(16))
    steps = max(_FEWEST_STEPS, _STEPS_A_REQUEST * count)
    away = Outage("plain", (4, 5), steps // 3 * STEP_MS, steps // 2 * STEP_MS)
    cluster = Cluster(STEP_MS, steps * STEP_MS, _GROUPS, outages=(away,))
    context = cluster.context(cluster.grid(), 0)
    shape = _SHAPES[seed % len(_SHAPES)]
    return cluster, [
        Request(
            f"r{index}",
            f"t{index % 3}",
            "default",
            0,
            float(rng.choice([1.0, 1.0, 2.0])),
            0,
            _graph(rng, shape, steps, context),
        )
        for index in range(count)
    ]


def _graph(
    rng: np.random.Generator, shape: _SmallShape, steps: int, context: CompileContext
) -> WorkGraph:
    """Return a request that some plan can hold; what is drawn otherwise is drawn again."""
    for _ in range(_TRIES):
        with suppress(RdlError):
            return compile_expression(_request(rng, shape, steps), context)
    raise RuntimeError("no request of a hundred fits its window")


def _request(rng: np.random.Generator, shape: _SmallShape, steps: int) -> Expression:
    if rng.random() < shape.recurring:
        period = steps // 3
        inner = Window(Offset(0), Offset(period * STEP_MS), _atom(rng, shape, 4))
        return Every(period * STEP_MS, inner, times=2, anchor=Offset(0))
    part = _expression(rng, shape, 0)
    start = int(rng.integers(0, steps // 2))
    length = int(_length(part) * rng.uniform(1.2, 3.0)) + 1
    return Window(Offset(start * STEP_MS), Offset(min(steps, start + length) * STEP_MS), part)


def _length(part: Expression) -> int:
    """Return about how many steps an expression takes alone."""
    match part:
        case Atom():
            return -(-part.work_ms // (part.maximum * STEP_MS))
        case Order(children=children):
            gap = 0 if part.gap is None else part.gap.minimum_ms // STEP_MS
            return sum(_length(one) + gap for one in children)
        case Graph(children=children):
            gap = max(0 if one.gap is None else one.gap.minimum_ms // STEP_MS for one in part.edges)
            return _length(children[0]) + gap + max(_length(one) for one in children[1:])
        case AllOf(children=children) | AnyOf(options=children):
            return max(_length(one) for one in children)
        case _:
            raise TypeError(f"no length of {type(part).__name__}")


def _expression(rng: np.random.Generator, shape: _SmallShape, depth: int) -> Expression:
    """Return an atom, or a group of two or three expressions."""
    kind = int(rng.integers(6)) if depth else int(rng.integers(1, 6))
    if depth == _DEEPEST or kind == 0:
        return _atom(rng, shape, 8)
    below = tuple(_expression(rng, shape, depth + 1) for _ in range(int(rng.integers(2, 4))))
    least = int(rng.integers(0, 3)) * STEP_MS
    most = least + 4 * STEP_MS if rng.random() < 0.3 else None
    gap = Gap(least, most)
    if kind in (1, 2):
        return Order(below, gap)
    if kind == 3:
        return AllOf(below)
    if kind == 4:
        return AnyOf(below, tuple(round(1.0 - 0.1 * i, 1) for i in range(len(below))))
    names = tuple(f"s{i}" for i in range(len(below)))
    return Graph(names, below, tuple(Edge(0, i, gap) for i in range(1, len(below))))


def _atom(rng: np.random.Generator, shape: _SmallShape, longest: int) -> Atom:
    on = "large" if rng.random() < _LABELLED else None
    cores = _LARGE_CORES if on else _CORES
    bundle = _HEAVY if on else _LIGHT
    most = int(rng.uniform(0.125, 0.5) * cores)
    most = min(most, _LARGE_CORES) if on else most
    lease = int(rng.integers(2, longest + 1))
    rigid = rng.random() < shape.gangs
    least = most if rigid else 1
    work = most * lease if rigid else int(rng.uniform(1.0, 2.5) * most * lease)
    work = least_reachable(least, most, 1, lease, work)
    return Atom(bundle, least, most, lease * STEP_MS, work * STEP_MS, on=on)
