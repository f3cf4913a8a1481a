"""`exact_small`: sets of 6 to 11 requests that are large for the cluster, to be proven in 60 s.

Three shapes of ten sets each. Atoms: the generator's malleable atoms and gangs on 120 steps, for
six times the machines that are there. Drawn: its mix of these and workflows, likewise. Nested:
orders, graphs, groups and choices inside of one another on 48 to 68 steps, gaps between, three
atoms in ten rigid gangs, heights of a quarter to eight tenths of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from bench.cases.exact.runs import figures_of, run_exact, warm
from bench.workloads.generator import BUNDLE, CONTAINERS, Mix, cluster_of, compiled, generate
from planner.cluster.cluster import Cluster
from planner.request import Request
from rdl.compile.compiler import compile_expression
from rdl.compile.shapes import least_reachable
from rdl.expressions import AllOf, AnyOf, Atom, Edge, Expression, Gap, Graph, Offset, Order, Window

NAME = "exact_small"

MACHINES: Final = 10
STEPS: Final = 120
STEP_MS: Final = 60_000
SEEDS: Final = tuple(range(1, 11))
SECONDS: Final = 60.0
MARKS: Final = (2.0, 10.0, 30.0, 60.0)

_DIVIDED = 6  # the generator's heights are an eighth of its cluster at most
_GANGS = 0.3
_DEEPEST = 2

Shape: TypeAlias = Callable[[int], tuple[Cluster, list[Request]]]


def atoms(seed: int) -> tuple[Cluster, list[Request]]:
    """Return half malleable atoms and half gangs of a seed, on a sixth of their machines."""
    mix = Mix(_count(seed), STEPS, _DIVIDED * MACHINES, "malleable", seed)
    less = replace(mix, machines=MACHINES)
    half = mix.requests // 2
    asked = generate(mix)[:half] + generate(replace(mix, kind="gangs"))[half:]
    return cluster_of(less), compiled(asked, less)


def drawn(seed: int) -> tuple[Cluster, list[Request]]:
    """Return the generator's mixed set of a seed, on a sixth of its machines."""
    mix = Mix(_count(seed), STEPS, _DIVIDED * MACHINES, "mixed", seed)
    less = replace(mix, machines=MACHINES)
    return cluster_of(less), compiled(generate(mix), less)


def nested(seed: int) -> tuple[Cluster, list[Request]]:
    """Return a set of nested requests, each in a window that begins somewhere in the horizon."""
    rng = np.random.default_rng(seed)
    steps = 24 + 4 * _count(seed)  # so that not all of them fit
    mix = Mix(_count(seed), steps, MACHINES, seed=seed)
    cluster = cluster_of(mix)
    context = cluster.context(cluster.grid(), 0)
    requests = []
    for index in range(mix.requests):
        start = int(rng.integers(0, steps // 6))
        window = Window(Offset(start * STEP_MS), Offset(steps * STEP_MS), _node(rng, 0))
        graph = compile_expression(window, context)
        requests.append(Request(f"r{index}", "t", "default", 0, 1.0, 0, graph))
    return cluster, requests


def _count(seed: int) -> int:
    return 6 + seed % 6


def _node(rng: np.random.Generator, depth: int) -> Expression:
    """Return an atom, or a group of two nodes."""
    kind = int(rng.integers(5)) if depth else int(rng.integers(1, 5))
    if depth == _DEEPEST or kind == 0:
        return _atom(rng)
    below = tuple(_node(rng, depth + 1) for _ in range(2))
    gap = Gap(int(rng.integers(0, 3)) * STEP_MS)
    if kind == 1:
        return Order(below, gap)
    if kind == 2:
        return AllOf(below)
    if kind == 3:
        return AnyOf(below, tuple(round(1.0 - 0.1 * i, 1) for i in range(len(below))))
    names = tuple(f"s{i}" for i in range(len(below)))
    edges = tuple(Edge(0, i, gap) for i in range(1, len(below)))
    return Graph(names, below, edges)


def _atom(rng: np.random.Generator) -> Atom:
    most = int(rng.integers(CONTAINERS * MACHINES // 4, CONTAINERS * MACHINES * 8 // 10))
    lease = int(rng.integers(2, 5))
    rigid = rng.random() < _GANGS
    least = most if rigid else 1
    work = most * lease if rigid else int(rng.uniform(1.0, 2.0) * most * lease)
    work = least_reachable(least, most, 1, lease, work)
    return Atom(BUNDLE, least, most, lease * STEP_MS, work * STEP_MS)


SHAPES: Final[dict[str, Shape]] = {"atoms": atoms, "drawn": drawn, "nested": nested}


def run(small: bool) -> dict[str, object]:
    """Run every shape and seed; small: one set of each for two seconds."""
    seeds, seconds = (SEEDS[:1], 2.0) if small else (SEEDS, SECONDS)
    figures = {}
    for name, shape in SHAPES.items():
        sets = [shape(seed) for seed in seeds]
        warm(*sets[0])
        figures[name] = figures_of([run_exact(*one, seconds, 0.0) for one in sets], MARKS)
    params = {"requests": "6 to 11", "machines": MACHINES, "seeds": seeds}
    return {"params": {**params, "seconds": seconds}, "figures": figures}
