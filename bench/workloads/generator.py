"""The one generator of workloads for benches, the comparison figures and the docs.

Heights are log-uniform from 1 to an eighth of the capacity, leases uniform from 1 to a twentieth
of the horizon, works uniform from g l to 6 h l and made reachable; windows are 1.1 to 4 times the
time alone, arrivals uniform. Heights are scaled so that all work together is `load` times the
capacity over the horizon, as far as the greatest height allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rdl.compile.shapes import least_reachable, shortest_length
from rdl.expressions import Atom, Edge, Expression, Graph, Offset, Order, Window
from rdl.resources import Resources

if TYPE_CHECKING:
    from planner.cluster.cluster import Cluster
    from planner.request import Request

CONTAINERS: Final = 16  # a machine
BUNDLE: Final = Resources.of({"cpu": 1000, "memory": 2048})
MACHINE: Final = Resources.of({"cpu": 1000 * CONTAINERS, "memory": 2048 * CONTAINERS})
KINDS: Final = ("malleable", "gangs", "workflows", "mixed")


@dataclass(frozen=True, slots=True)
class Mix:
    """What to generate.

    Attributes
    ----------
    requests, steps, machines
        How many of each; steps of 60 s.
    kind
        One of `KINDS`; mixed is a third of each.
    load
        Work asked over capacity.
    """

    requests: int = 1000
    steps: int = 1440
    machines: int = 4000
    kind: str = "malleable"
    seed: int = 1
    load: float = 1.2
    step_ms: int = 60_000

    @property
    def capacity(self) -> int:
        """Containers that the machines hold."""
        return CONTAINERS * self.machines


@dataclass(frozen=True, slots=True)
class AtomShape:
    """One atom: g, h, l, w in steps and bundle-steps."""

    least: int
    most: int
    lease: int
    work: int

    @property
    def alone(self) -> int:
        """Steps it takes at least."""
        return shortest_length(self.least, self.most, 1, self.lease, self.work)


@dataclass(frozen=True, slots=True)
class DrawnRequest:
    """One request: stages, arrows between them, and a window in steps."""

    stages: tuple[AtomShape, ...]
    edges: tuple[tuple[int, int], ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Draft:
    """A request before its heights are scaled; a stage is height, lease, and its work's place."""

    kind: str
    stages: tuple[tuple[float, int, float], ...]
    edges: tuple[tuple[int, int], ...]
    slack: float
    arrival: float


def generate(mix: Mix) -> list[DrawnRequest]:
    """Return the requests of a mix; the same mix gives the same requests."""
    if mix.kind not in KINDS:
        raise ValueError(f"unknown kind {mix.kind!r}; write one of {', '.join(KINDS)}")
    rng = np.random.default_rng(mix.seed)
    drafts = [_draft(mix, rng) for _ in range(mix.requests)]
    target = mix.load * mix.capacity * mix.steps
    factor = 1.0
    for _ in range(12):
        total = sum(stage.work for draft in drafts for stage in _stages(draft, mix, factor))
        factor *= target / total
    return [_finish(draft, mix, factor) for draft in drafts]


def _draft(mix: Mix, rng: np.random.Generator) -> _Draft:
    kind = mix.kind if mix.kind != "mixed" else KINDS[int(rng.integers(3))]
    count = int(rng.integers(3, 21)) if kind == "workflows" else 1
    longest = max(1, mix.steps // 20 // (1 if count == 1 else count // 2))
    stages = tuple(
        (
            float(np.exp(rng.uniform(0, np.log(mix.capacity / 8)))),
            int(rng.integers(1, longest + 1)),
            float(rng.random()),
        )
        for _ in range(count)
    )
    return _Draft(kind, stages, _arrows(count, rng), rng.uniform(0.1, 3), rng.random())


def _arrows(count: int, rng: np.random.Generator) -> tuple[tuple[int, int], ...]:
    """Return a chain, or a graph in which every later stage waits for one or two before it."""
    if count == 1:
        return ()
    if rng.random() < 0.5:
        return tuple((i, i + 1) for i in range(count - 1))
    found: set[tuple[int, int]] = set()
    for after in range(1, count):
        for _ in range(int(rng.integers(1, 3))):
            found.add((int(rng.integers(max(0, after - 4), after)), after))
    return tuple(sorted(found))


def _stages(draft: _Draft, mix: Mix, factor: float) -> list[AtomShape]:
    found = []
    for height, lease, part in draft.stages:
        most = int(min(max(1.0, height * factor), max(1, mix.capacity // 8)))
        least = most if draft.kind == "gangs" else 1
        floor = least * lease
        work = floor + int(part * (6 * most * lease - floor))
        found.append(AtomShape(least, most, lease, least_reachable(least, most, 1, lease, work)))
    return found


def _finish(draft: _Draft, mix: Mix, factor: float) -> DrawnRequest:
    stages = _stages(draft, mix, factor)
    finish = [stage.alone for stage in stages]
    for before, after in draft.edges:
        finish[after] = max(finish[after], finish[before] + stages[after].alone)
    alone = max(finish)
    length = min(mix.steps, int(np.ceil(alone * (1 + draft.slack))))
    start = int(draft.arrival * (mix.steps - length + 1))
    return DrawnRequest(tuple(stages), draft.edges, start, start + length)


def expression_of(asked: DrawnRequest, step_ms: int) -> Expression:
    """Return a request as RDL."""
    atoms = tuple(
        Atom(BUNDLE, s.least, s.most, s.lease * step_ms, s.work * step_ms) for s in asked.stages
    )
    chain = tuple((i, i + 1) for i in range(len(atoms) - 1))
    inner: Expression
    if len(atoms) == 1:
        inner = atoms[0]
    elif asked.edges == chain:
        inner = Order(atoms)
    else:
        names = tuple(f"s{index}" for index in range(len(atoms)))
        inner = Graph(names, atoms, tuple(Edge(*edge) for edge in asked.edges))
    return Window(Offset(asked.start * step_ms), Offset(asked.end * step_ms), inner)


def cluster_of(mix: Mix) -> Cluster:
    """Return the cluster of a mix."""
    from planner.cluster.cluster import Cluster, MachineGroup

    machines = (MachineGroup("standard", mix.machines, MACHINE),)
    return Cluster(step_ms=mix.step_ms, horizon_ms=mix.steps * mix.step_ms, machines=machines)


def requests_of(mix: Mix) -> list[Request]:
    """Return the compiled requests of a mix, submitted when their windows start."""
    return compiled(generate(mix), mix)


def compiled(asked: Sequence[DrawnRequest], mix: Mix) -> list[Request]:
    """Compile requests on the cluster of a mix, each submitted when its window starts."""
    from planner.request import Request
    from rdl.compile.compiler import compile_expression

    cluster = cluster_of(mix)
    grid = cluster.grid()
    found = []
    for index, one in enumerate(asked):
        submitted = one.start * mix.step_ms
        context = cluster.context(grid, submitted)
        graph = compile_expression(expression_of(one, mix.step_ms), context)
        found.append(Request(f"r{index}", f"t{index % 7}", "default", submitted, 1.0, 0, graph))
    return found
