"""`early_places`: how late after the first place that machines have do agents put a gang?

A promise is worth most where time is left after it: a slot that is missed can then be planned
again. Plans of some machines are filled with requests drawn at random, of parts of machines and of
whole ones, until they are full, by one agent each. Every accepted gang is held against the first
step from which on enough machines are free for its lease, counted by brute force over the slots of
the Plan before it. Two shapes: `small` is that of the faults on a Slurm (6 machines of 4 cores, a
window of 75 s), `wide` has 24 machines of 16 cores and windows of up to ten minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster, MachineGroup
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit
from planner.promise import PromiseLevel
from planner.request import Request
from rdl.compile.compiler import compile_expression
from rdl.resources import Resources
from rdl.text.parser import parse

NAME = "early_places"

AGENTS = ("earliest", "aligned-early", "gree-l")

#: From how many steps (seconds) on a gang is late.
LATE = 40


@dataclass(frozen=True, slots=True)
class Shape:
    """Machines, cores, steps of a second, what requests take at most, and how many come."""

    name: str
    machines: int
    cores: int
    steps: int
    longest: int
    widest: int
    window: tuple[int, int]
    requests: int


SHAPES = (
    Shape("small", 6, 4, 300, 14, 3, (40, 75), 60),
    Shape("wide", 24, 16, 1200, 120, 8, (150, 600), 150),
)


@dataclass(frozen=True, slots=True)
class FirstGang:
    """A gang as drawn: bundles of some cores each, its lease and its window, in steps."""

    cores: int
    bundles: int
    lease: int
    start: int
    end: int

    @property
    def source(self) -> str:
        """In RDL."""
        numbers = f"{self.bundles}, {self.bundles}, {self.lease}s, {self.lease * self.bundles}s"
        return f"window(atom(<{self.cores} cpu>, {numbers}), {self.start}s, {self.end}s)"


def run(small: bool) -> dict[str, object]:
    """Fill Plans of both shapes by every agent."""
    plans = 1 if small else 20
    figures = {
        f"{shape.name}_{agent}": _measure(shape, agent, plans)
        for shape in SHAPES
        for agent in AGENTS
    }
    params = {"plans": plans, "late_steps": LATE}
    return {"params": params, "figures": figures}


def _measure(shape: Shape, agent: str, plans: int) -> dict[str, object]:
    """Return how many gangs were accepted, how many of them late, and how late they were."""
    late = np.array(
        [
            steps
            for seed in range(plans)
            for steps in _lateness(shape, agent, np.random.default_rng(seed))
        ],
        dtype=np.int64,
    )
    return {
        "asked": plans * shape.requests,
        "accepted": len(late),
        "late": int((late > LATE).sum()),
        "mean_steps": round(float(late.mean()), 1) if len(late) else 0.0,
        "most_steps": int(late.max(initial=0)),
    }


def _lateness(shape: Shape, agent: str, rng: np.random.Generator) -> Iterator[int]:
    """Yield of each accepted gang how many steps it begins after the first place there was."""
    group = MachineGroup("m", shape.machines, Resources.of({"cpu": 1000 * shape.cores}))
    cluster = Cluster(1000, 1000 * shape.steps, (group,), promise=PromiseLevel.PLACED)
    plan, planner = Plan(cluster, cluster.grid()), agent_named(agent)
    taken = np.zeros((shape.machines, shape.steps), dtype=np.int64)
    context = cluster.context(cluster.grid(), 0)
    for index in range(shape.requests):
        gang = _drawn(shape, rng)
        graph = compile_expression(parse(gang.source), context)
        request = Request(f"r{index}", "t", "default", 0, 1.0, 0, graph)
        result = planner.plan([request], plan.view(), Limits())[0]
        if not result.placed:
            continue
        change = Admit(request, result, agent, planner=planner)
        prepared = plan.prepare([change], plan.version, atomic=False, at_ms=0)
        if prepared.record is None or prepared.conflicts:
            continue
        plan.apply(prepared.record)
        held = plan.reservation(request.id)
        assert held is not None
        assert held.atoms[0].slots is not None
        late = int(held.atoms[0].rows[:, 0].min()) - _first_place(gang, taken, shape.cores)
        assert late >= 0
        yield late
        for start, end, bundles, machine in held.atoms[0].slots.tolist():
            taken[machine, start:end] += bundles * gang.cores


def _drawn(shape: Shape, rng: np.random.Generator) -> FirstGang:
    """Return a gang: half take whole machines, half some of their cores."""
    cores = shape.cores if rng.random() < 0.5 else int(rng.integers(1, shape.cores))
    lease, window = (
        int(rng.integers(shape.longest // 3, shape.longest)),
        rng.integers(*shape.window),
    )
    start = int(rng.integers(0, shape.steps - window))
    return FirstGang(
        cores, int(rng.integers(1, shape.widest + 1)), lease, start, start + int(window)
    )


def _first_place(gang: FirstGang, taken: NDArray[np.int64], cores: int) -> int:
    """Return the first step from which on machines hold all bundles of a gang for its lease."""
    for start in range(gang.start, gang.end - gang.lease + 1):
        most = taken[:, start : start + gang.lease].max(axis=1)
        if int(((cores - most) // gang.cores).sum()) >= gang.bundles:
            return start
    raise AssertionError("a gang was accepted where no place was found")
