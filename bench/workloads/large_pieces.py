"""A second generator for `exact`: few large pieces, nested, on two kinds of machines.

Nothing of `exact` was tuned on these sets. 1,440 steps of a minute; 24 machines of 16 cores and 6
with twice the memory and the label `fat`, a sixth of the first kind away for three hours.
Atoms are up to a sixth of all cores high, log-uniform, 30 % of them rigid gangs, leases uniform up
to 90 steps; a tenth must run on `fat`. Bundles are of three kinds, and
cores bind more often than memory: so all work is worth about the same for what it takes.

- `workflows`: orders, groups, choices and graphs inside of one another, to a depth of three, with
  least and largest gaps.
- `mixed`: a third each of workflows, single atoms, and atoms that recur three to five times.

Windows are 1.1 to 4 times the time alone. Heights are scaled so that all work together is `load`
times all cores over the horizon, as far as the greatest height allows. The seeds come in halves:
settings are chosen on `CHOICE_SEEDS`, figures are reported on `REPORT_SEEDS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.cluster.cluster import Cluster, MachineGroup, Outage
from planner.request import Request
from rdl.compile.compiler import compile_expression
from rdl.compile.shapes import least_reachable
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
from rdl.work_graph import SHORTEST

KINDS: Final = ("workflows", "mixed")
CHOICE_SEEDS: Final = (1, 2, 3, 4, 5)
REPORT_SEEDS: Final = (6, 7, 8, 9, 10)

STEP_MS: Final = 60_000
STEPS: Final = 1440
CORES: Final = 16 * 30

_BUNDLES: Final = (
    Resources.of({"cpu": 1000, "memory": 2048}),
    Resources.of({"cpu": 2000, "memory": 2048}),
    Resources.of({"cpu": 1000, "memory": 4096}),
)
_LONGEST_LEASE: Final = 90
_LONGEST_RECURRENT: Final = 40  # so that each fits its period
_TALLEST: Final = 6  # a part of all cores
_RIGID: Final = 0.3
_FAT: Final = 0.1
_DEEPEST: Final = 3
_LONG: Final = 8  # horizons in which any request fits
_WINDOWS: Final = 1_000_000  # an attempt that is never made: the random numbers of windows
_ROUNDS: Final = 8  # in which heights are scaled


@dataclass(frozen=True, slots=True)
class LargePieces:
    """A set of the second generator.

    Attributes
    ----------
    kind
        One of `KINDS`.
    load
        Work asked over all cores of the horizon.
    """

    kind: str = "workflows"
    seed: int = 1
    requests: int = 100
    load: float = 1.2


def large_pieces(asked: LargePieces) -> tuple[Cluster, list[Request]]:
    """Return the cluster and the compiled requests of a set; equal sets are equal.

    Raises
    ------
    ValueError
        If the kind is unknown.
    """
    if asked.kind not in KINDS:
        raise ValueError(f"unknown kind {asked.kind!r}; write one of {', '.join(KINDS)}")
    cluster = _cluster(STEPS)
    attempts = [_attempt(asked, index) for index in range(asked.requests)]
    factor = 1.0
    for _ in range(_ROUNDS):
        drawn = [_Draw(asked, i, attempt, factor).request() for i, attempt in enumerate(attempts)]
        factor *= asked.load * CORES * STEPS / sum(_core_steps(one) for one in drawn)
    context = cluster.context(cluster.grid(), 0)
    found = []
    for index, inner in enumerate(drawn):
        rng = np.random.default_rng((asked.seed, index, _WINDOWS))
        length = min(STEPS, int(np.ceil(_alone(inner) * (1 + rng.uniform(0.1, 3)))))
        start = int(rng.random() * (STEPS - length + 1))
        window = Window(Offset(start * STEP_MS), Offset((start + length) * STEP_MS), inner)
        graph = compile_expression(window, context)
        found.append(Request(f"r{index}", f"t{index % 7}", "default", 0, 1.0, 0, graph))
    return cluster, found


def _attempt(asked: LargePieces, index: int) -> int:
    """Return the first attempt at a request that takes half of the horizon at most."""
    attempt = 0
    while _alone(_Draw(asked, index, attempt, 1.0).request()) > STEPS // 2:
        attempt += 1
    return attempt


def _alone(asked: Expression) -> int:
    """Return the steps that an expression takes at least."""
    long = _cluster(_LONG * STEPS)
    end = Offset(_LONG * STEPS * STEP_MS)
    graph = compile_expression(Window(Offset(0), end, asked), long.context(long.grid(), 0))
    return int(graph.vertices[-1, SHORTEST])


def _cluster(steps: int) -> Cluster:
    slim = MachineGroup("slim", 24, Resources.of({"cpu": 16_000, "memory": 65_536}))
    fat = MachineGroup(
        "fat", 6, Resources.of({"cpu": 16_000, "memory": 131_072}), frozenset({"fat"})
    )
    away = Outage("slim", (20, 21, 22, 23), 600 * STEP_MS, 780 * STEP_MS)
    return Cluster(STEP_MS, steps * STEP_MS, (slim, fat), outages=(away,))


class _Draw:
    """The random numbers of one request: the same whatever the factor of its heights."""

    def __init__(self, asked: LargePieces, index: int, attempt: int, factor: float) -> None:
        self._rng = np.random.default_rng((asked.seed, index, attempt))
        self._kind, self._factor = asked.kind, factor

    def request(self) -> Expression:
        """Return what one request asks for, without its window."""
        form = int(self._rng.integers(3)) if self._kind == "mixed" else 0
        if form == 0:
            return self._group(0)
        rigid = self._rng.random() < _RIGID
        if form == 1:
            return self._atom(rigid=rigid)
        times = int(self._rng.integers(3, 6))
        atom = self._atom(rigid=rigid, longest=_LONGEST_RECURRENT)
        return Every(STEPS // 2 // times * STEP_MS, atom, times=times)

    def _group(self, depth: int) -> Expression:
        """Return a choice, or an order, a group or a graph of two to four expressions."""
        kind = int(self._rng.integers(4))
        if kind == 2:
            return self._choice()
        below = tuple(self._expression(depth + 1) for _ in range(int(self._rng.integers(2, 5))))
        if kind == 0:
            return Order(below, self._gap())
        if kind == 1:
            return AllOf(below)
        edges = tuple(
            Edge(int(self._rng.integers(after)), after, self._gap())
            for after in range(1, len(below))
        )
        return Graph(tuple(f"s{i}" for i in range(len(below))), below, edges)

    def _choice(self) -> Expression:
        """Return an atom or, worth a tenth less, the same work half as high."""
        first = self._atom(rigid=self._rng.random() < _RIGID)
        half = max(1, first.maximum // 2)
        least = half if first.minimum == first.maximum else 1
        work = least_reachable(least, half, 1, first.lease_ms, first.work_ms)
        other = Atom(first.bundle, least, half, first.lease_ms, work)
        return AnyOf((first, other), (1.0, 0.9))

    def _expression(self, depth: int) -> Expression:
        if depth == _DEEPEST or self._rng.random() < 0.6:
            return self._atom(rigid=self._rng.random() < _RIGID)
        return self._group(depth)

    def _gap(self) -> Gap | None:
        """Return no gap, a least one, or one with a largest."""
        least = int(self._rng.integers(0, 20)) * STEP_MS
        kind = int(self._rng.integers(3))
        if kind == 0:
            return None
        return Gap(least) if kind == 1 else Gap(least, least + 120 * STEP_MS)

    def _atom(self, *, rigid: bool, longest: int = _LONGEST_LEASE) -> Atom:
        rng = self._rng
        bundle = _BUNDLES[int(rng.integers(len(_BUNDLES)))]
        on = "fat" if rng.random() < _FAT else None
        cores = np.exp(rng.uniform(0, np.log(CORES / _TALLEST))) * self._factor
        tallest = CORES / _TALLEST / (2 if on else 1)
        most = max(1, int(min(cores, tallest) * 1000 // bundle["cpu"]))
        lease = int(rng.integers(1, longest + 1))
        part = rng.random()
        if rigid:
            return Atom(bundle, most, most, lease * STEP_MS, most * lease * STEP_MS, on=on)
        work = least_reachable(1, most, 1, lease, lease + int(part * (3 * most - 1) * lease))
        return Atom(bundle, 1, most, lease * STEP_MS, work * STEP_MS, on=on)


def _core_steps(part: Expression) -> float:
    """Return the work of an expression in cores x steps, the first option of each choice."""
    match part:
        case Atom():
            return part.work_ms / STEP_MS * part.bundle["cpu"] / 1000
        case AnyOf():
            return _core_steps(part.options[0])
        case AllOf() | Order() | Graph():
            return sum(_core_steps(child) for child in part.children)
        case Every():
            return (part.times or 1) * _core_steps(part.of)
        case _:
            raise TypeError(f"this generator draws no {type(part).__name__}")
