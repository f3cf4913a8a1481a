"""A sweep over time that keeps every undominated partial plan: exact on small sets of lumpy gangs.

Labels that cannot come to more than a plan in hand, as prices say
(`planner.agents.exact.kernels.bound`), are left, and of labels with the same requests still open
one that holds nowhere less and is worth no more. What is left at the end is the optimum. Where few
blocks run at once labels stay few; where they do not, the sweep gives up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact import dominance_kernels as kernels
from planner.agents.exact.decomposition.blocks import (
    are_single_blocks,
    block_needs,
    start_flags,
)
from planner.agents.exact.incumbent import ProofAnswer
from planner.agents.exact.problem import F64, I64, PlanningProblem
from planner.placement import PlacementResult

#: Requests: a bit of one word each.
MOST_REQUESTS = 64

#: Labels at one column, beaten ones among them, above which the sweep gives up; half a kilobyte
#: each, taken from the machine only where they are used.
MOST_LABELS = 150_000

#: Rounding of sums, as a part of everything: labels that are better by less are not.
_ROUNDING = 1e-10


def suits_dominance(problem: PlanningProblem) -> bool:
    """Return whether every request is one block, and they are few."""
    few = len(problem.requests) <= MOST_REQUESTS
    return few and are_single_blocks(problem) and not problem.forest.keep.any()


@dataclass(slots=True)
class DominanceSearch:
    """One sweep of one problem (`suits_dominance`) at some prices.

    Attributes
    ----------
    prices
        float64[row, column], at least 0; the better they are, the fewer labels.
    most
        Labels.
    labels
        Greatest number of labels at one column, when it has run.
    """

    problem: PlanningProblem
    prices: F64
    most: int = MOST_LABELS
    labels: int = 0
    _order: I64 = field(init=False)
    _blocks: kernels.Blocks = field(init=False)

    def __post_init__(self) -> None:
        """Lay out the blocks by their release."""
        rows = self.problem.forest.vertices
        order = np.argsort(rows[:, pb.V_START], kind="stable")
        self._order = np.array([i for i in order.tolist() if rows[i, pb.V_SOUND]], dtype=np.int64)
        self._blocks = self._build_blocks()

    def _build_blocks(self) -> kernels.Blocks:
        room, forest = self.problem.room, self.problem.forest
        rows = forest.vertices[self._order]
        count, columns = len(rows), room.free.shape[1]
        need = np.ascontiguousarray(block_needs(self.problem)[:, self._order])
        cost = np.zeros((count, columns + 1))
        cost[:, 1:] = (need / room.scale[:, None]).T @ self.prices
        cost = np.cumsum(cost, axis=1)
        fits, gain = self._fits_and_gains(rows, cost)
        changes = (np.diff(room.free, axis=1) != 0).any(axis=0)
        changes |= (np.diff(room.fit, axis=1) != 0).any(axis=0)
        ahead = np.cumsum((self.prices * room.capacity).sum(axis=0)[::-1])[::-1]
        rest = np.cumsum(np.maximum(gain[:, 0], 0.0)[::-1])[::-1] if count else np.zeros(0)
        return kernels.Blocks(
            release=rows[:, pb.V_START].copy(),
            length=rows[:, pb.V_RUN].copy(),
            fits=fits,
            need=need,
            worth=forest.value[self._order],
            free=room.free,
            edges=(np.flatnonzero(changes) + 1).astype(np.int64),
            cost=cost,
            gain=gain,
            rest=np.append(rest, 0.0),
            room=np.append(ahead, 0.0),
        )

    def _fits_and_gains(self, rows: I64, cost: F64) -> tuple[I64, F64]:
        """Return where each block fits alone, and what it can gain from each start on (or -1)."""
        fits = start_flags(self.problem, rows)
        gain = np.full(fits.shape, -1.0)
        worth = self.problem.forest.value[self._order]
        for j, row in enumerate(rows):
            width = max(0, int(row[pb.V_END] - row[pb.V_START] - row[pb.V_RUN]) + 1)
            good = fits[j, :width]
            starts = np.arange(len(good)) + row[pb.V_START]
            spent = np.where(good, cost[j, starts + row[pb.V_RUN]] - cost[j, starts], np.inf)
            least = np.minimum.accumulate(spent[::-1])[::-1]
            gain[j, : len(good)] = np.where(least < np.inf, np.maximum(0.0, worth[j] - least), -1.0)
        return fits, gain

    def run(self, value: Callable[[], float], stop: Callable[[], bool]) -> ProofAnswer | None:
        """Return the optimum, or None where labels were too many or `stop` said so.

        Parameters
        ----------
        value
            Of the best plan in hand, called again at every release.

        Returns
        -------
        ProofAnswer
            With results only where they are worth more than the plan in hand.
        """
        blocks, count = self._blocks, 1
        releases = np.unique(blocks.release).tolist()
        labels, ahead = self._empty(self.most), self._empty(self.most)
        air = self._empty(kernels.DEPTH)
        at, first = (np.zeros(kernels.DEPTH, dtype=np.int64) for _ in range(2))
        labels.bound[0] = np.inf
        known, beat = 0, 0.0
        for release, until in zip(releases, [*releases[1:], blocks.free.shape[1]], strict=True):
            if stop():
                return None
            beat = value() + _ROUNDING * self.problem.total
            released = int(np.searchsorted(blocks.release, release, side="right"))
            found = kernels.advance(
                blocks, labels, count, air, at, first, known, released, until, beat, ahead
            )
            if found < 0:
                return None
            count = kernels.prune(blocks, ahead, found, until, labels)
            self.labels, known = max(self.labels, count), released
        return self._answer(labels, count, beat)

    def _empty(self, count: int) -> kernels.Labels:
        requests = len(self._order)
        return kernels.Labels(
            open=np.zeros(count, dtype=np.uint64),
            value=np.zeros(count),
            bound=np.zeros(count),
            running=np.zeros(count, dtype=np.int64),
            end=np.zeros((count, kernels.RUNNING), dtype=np.int64),
            who=np.zeros((count, kernels.RUNNING), dtype=np.int64),
            begun=np.zeros((count, requests), dtype=np.int32),
        )

    def _answer(self, labels: kernels.Labels, count: int, beat: float) -> ProofAnswer:
        best = int(np.argmax(labels.value[:count])) if count else -1
        if best < 0 or labels.value[best] <= beat:
            return ProofAnswer(None, beat)
        results: list[PlacementResult | None] = [None] * len(self.problem.requests)
        for j, request in enumerate(self._order.tolist()):
            begun = int(labels.begun[best, j])
            if begun:
                results[request] = self._block(request, begun - 1)
        bound = float(labels.value[best]) + _ROUNDING * self.problem.total
        return ProofAnswer(results, bound)

    def _block(self, request: int, start: int) -> PlacementResult:
        row = self.problem.forest.vertices[request]
        begin = start + self.problem.base
        held = [begin, begin + int(row[pb.V_RUN]), int(row[pb.V_MOST] * row[pb.V_MULTIPLE])]
        return PlacementResult(
            vertices=np.zeros(1, dtype=np.int64), first=np.arange(2), rows=np.array([held])
        )
