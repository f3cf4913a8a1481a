"""Portfolio: the best of several agents and request orders (greedy.md 2.5).

`portfolio` keeps the run with the most value; among equals the one with fewer falls, then the
first. Only requests of equal priority and submission may be reordered; `portfolio-free` uses any
order, as planners that maximise value do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from planner.agent import Limits
from planner.agents.greedy.agent import (
    ALIGNED,
    EARLIEST,
    GREE,
    GREE_L,
    HEADROOM_ALONE,
    LEVELLED,
    GreedyAgent,
    LazyResults,
)
from planner.agents.greedy.batch import Batch, taking_order
from planner.agents.greedy.kernels import codes
from planner.placement import PlacementResult
from planner.request import Request
from planner.value import size_of, worth_of
from planner.view import PlanView
from rdl.resources import Resources
from rdl.work_graph import COLUMNS, END, SHIFT_COUNT, SHORTEST, START

I64 = NDArray[np.int64]

_MEMBERS = (
    GREE_L,
    GreedyAgent("gree-l and gree", (codes.LOWEST, codes.COMPACT)),
    GREE,
    HEADROOM_ALONE,
    ALIGNED,
    EARLIEST,
    LEVELLED,
)

#: For a single request: most headroom, headroom level, GREE.
_ONLINE = GreedyAgent("portfolio", (codes.HEADROOM_ONLY, codes.LEVEL, codes.BLOCKS, codes.COMPACT))


@dataclass(frozen=True, slots=True)
class Portfolio:
    """Runs greedy agents on three orders and keeps the best run.

    Agents: GREE-L, GREE-L followed by GREE, GREE, headroom, aligned, earliest, level: in a batch
    its value is at least that of each named agent. Orders: as given; greatest weight first, then
    smallest size; tightest window first.

    Attributes
    ----------
    free_order
        Take requests in any order, ignoring priority and submission. Also tries greatest value
        first; starts with `level`, which gains most by it.
    clock
        Monotonic seconds, for `Limits.time_s`: checked only between runs; the first always
        completes.
    """

    name: str = "portfolio"
    free_order: bool = False
    clock: Callable[[], float] = field(default=time.monotonic, compare=False)

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> Sequence[PlacementResult]:
        """Return the results of the best run, one per request, in input order."""
        if not requests:
            return ()
        if len(requests) == 1:
            return _ONLINE.plan(requests, view, limits)
        until = None if limits.time_s is None else self.clock() + limits.time_s
        first = Batch.of(requests, view)
        free, slack = first.profile.free.copy(), first.averages.slack.copy()
        weights = np.array([request.weight for request in requests])
        values = weights * np.array(
            [size_of(request.graph, view.reference) for request in requests]
        )
        orders = _orders(requests, weights, values)
        runs = [(member, order) for member in _MEMBERS for order in orders]
        if self.free_order:
            runs = _free_runs(requests, values, orders)
        best: tuple[float, ...] | None = None
        kept = first
        for done, (member, order) in enumerate(runs):
            if done and _over(limits, until, self.clock):
                break
            batch = first.again(free, slack)
            member.run(batch, order, Limits())
            score: tuple[float, ...] = (
                _value(batch, requests, values, view.reference),
                -batch_falls(batch, requests),
            )
            if best is None or score > best:
                best, kept = score, batch
            if limits.progress is not None:
                limits.progress(done + 1, len(runs))
        return LazyResults(kept, requests)


def _over(limits: Limits, until: float | None, clock: Callable[[], float]) -> bool:
    if limits.stop is not None and limits.stop():
        return True
    return until is not None and clock() >= until


def _orders(
    requests: Sequence[Request], weights: NDArray[np.float64], values: NDArray[np.float64]
) -> list[I64]:
    """Return the distinct orders to try."""
    submitted = np.array([request.submitted_ms for request in requests], dtype=np.int64)
    priority = np.array([request.priority for request in requests], dtype=np.int64)
    found = [taking_order(requests)]
    for keys in ((values, -weights), (_slack(requests),)):
        order = np.lexsort((*keys, submitted, -priority)).astype(np.int64)
        if not any(np.array_equal(order, known) for known in found):
            found.append(order)
    return found


def _free_runs(
    requests: Sequence[Request], values: NDArray[np.float64], fixed: Sequence[I64]
) -> list[tuple[GreedyAgent, I64]]:
    """Return GREE-L on the taking order, then every agent on all orders, most promising first.

    Parameters
    ----------
    fixed
        Orders that respect priority and submission, the taking order first: so every run of
        `portfolio` is among the runs returned.
    """
    chosen = (np.lexsort((values, _slack(requests))), np.argsort(-values, kind="stable"))
    orders = [*chosen, np.argsort(values, kind="stable")]
    orders += [one for one in fixed if not any(np.array_equal(one, known) for known in orders)]
    first = (GREE_L, fixed[0])
    rest = [(member, order) for member in reversed(_MEMBERS) for order in orders]
    return [first, *(run for run in rest if run[0] is not GREE_L or run[1] is not fixed[0])]


def _slack(requests: Sequence[Request]) -> NDArray[np.float64]:
    """Return the fraction of each window that its request does not need."""
    roots = [request.graph.vertices[-1] for request in requests if len(request.graph.vertices)]
    table = np.array(roots, dtype=np.int64).reshape(-1, len(roots[0]) if roots else COLUMNS)
    length = np.maximum(1, table[:, END] - table[:, START])
    slack = np.zeros(len(requests))
    held = np.array([len(request.graph.vertices) > 0 for request in requests])
    slack[held] = 1.0 - table[:, SHORTEST] / length
    return slack


def _value(
    batch: Batch, requests: Sequence[Request], values: NDArray[np.float64], reference: Resources
) -> float:
    placed = batch.out.status[:, codes.OUTCOME] == codes.PLACED
    total = float(values[placed].sum())
    for index in np.flatnonzero(placed & (batch.out.extents[:, codes.CHOICE_COUNT] > 0)).tolist():
        choices = batch.choices(index)
        total += float(values[index]) * (worth_of(requests[index].graph, choices, reference) - 1.0)
    return total


def batch_falls(batch: Batch, requests: Sequence[Request]) -> int:
    """Return the total falls of all placed atoms, including each final fall and each occurrence."""
    extents = batch.out.extents
    placed = np.flatnonzero(batch.out.status[:, codes.OUTCOME] == codes.PLACED)
    starts: list[I64] = []
    counts: list[I64] = []
    for index in placed.tolist():
        extent = extents[index]
        first = batch.out.first[
            extent[codes.FIRST_FIRST] : extent[codes.FIRST_FIRST] + extent[codes.VERTEX_COUNT]
        ]
        starts.append(first + extent[codes.ROW_FIRST])
        at = extent[codes.VERTEX_FIRST]
        atoms = batch.out.vertices[at : at + extent[codes.VERTEX_COUNT]]
        counts.append(requests[index].graph.vertices[atoms, SHIFT_COUNT])
    rows = batch.out.rows[: int(extents[placed, codes.ROW_COUNT].sum())]
    if not len(rows):
        return 0
    begins = np.concatenate(starts)
    follows = np.zeros(len(rows) + 1, dtype=bool)
    follows[1:-1] = rows[1:, 0] == rows[:-1, 1]
    follows[begins] = False
    after = np.append(rows[1:, 2], 0) * follows[1:]
    order = np.argsort(begins)
    falls = np.add.reduceat(np.maximum(0, rows[:, 2] - after), begins[order])
    return int((falls * np.concatenate(counts)[order]).sum())


#: Most value.
PORTFOLIO = Portfolio()

#: Most requests.

#: Most value, with any order of requests.
PORTFOLIO_FREE = Portfolio("portfolio-free", free_order=True)
