"""Sets with a plan that is known to exist: what is free is exactly what that plan uses.

The capacity of a set of `bench.workloads.large_pieces` is lowered, step by step and row by row, to
the use of one plan. The plan then leaves nothing over, so what a search misses of its value is the
search's, whatever bounds say. It is made by a greedy agent in an order of no sense, so that no
agent's own order leads to it: `jagged` by GREE (as high as it goes, so capacity jumps), `levelled`
by `level` (as low as it goes).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.papers.agents import bench_agent
from bench.workloads.large_pieces import LargePieces, large_pieces
from planner.agent import Limits
from planner.placement import PlacementResult
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import PriceList, score_of
from planner.view import AverageSlack, Demand, PlanView
from rdl.resources import Resources
from rdl.time_grid import TimeGrid

#: The agent that plants a plan, by the form of the capacity that it leaves.
PLANTERS: Final = {"jagged": "gree", "levelled": "level"}


@dataclass(frozen=True, slots=True)
class PlantedSet:
    """Requests, what is free for them, and a plan that uses all of it.

    Attributes
    ----------
    requests, view
        What is to be planned.
    results
        The planted plan, one result a request.
    value
        What it is worth.
    """

    requests: Sequence[Request]
    view: PlanView
    results: Sequence[PlacementResult]
    value: float


def planted(asked: LargePieces, form: str) -> PlantedSet:
    """Return a set of the second generator on the capacity that one of its plans uses.

    Parameters
    ----------
    form
        One of `PLANTERS`.

    Raises
    ------
    ValueError
        If the form is unknown.
    """
    if form not in PLANTERS:
        raise ValueError(f"unknown form {form!r}; write one of {', '.join(PLANTERS)}")
    cluster, requests = large_pieces(asked)
    view = Plan(cluster, cluster.grid()).view()
    order = np.random.default_rng((asked.seed, len(form))).permutation(len(requests)).tolist()
    agent = bench_agent(PLANTERS[form])
    found = agent.plan([requests[index] for index in order], view, Limits())
    by_index = dict(zip(order, found, strict=True))
    results = [by_index[index] for index in range(len(requests))]
    placed = [pair for pair in zip(requests, results, strict=True) if pair[1].placed]
    lowered = LoweredView(view, view.after(placed, view.version).free.copy())
    return PlantedSet(requests, lowered, results, score_of(requests, results, view.reference)[0])


@dataclass(frozen=True, slots=True)
class LoweredView:
    """A view of which a part of what is free is taken away.

    Attributes
    ----------
    base
        What is lowered.
    taken
        int64[row, step]: what is not free any more.
    """

    base: PlanView
    taken: NDArray[np.int64] = field(repr=False)

    @property
    def free(self) -> NDArray[np.int64]:
        """int64[row, step - first]: what is left."""
        free = self.base.free.copy()
        free[: len(self.taken)] -= self.taken
        return free

    def arrays(self) -> None:
        """Return nothing: there are no arrays to share."""

    def after(self, placed: Iterable[tuple[Request, PlacementResult]], version: int) -> LoweredView:
        """Return the view in which `placed` holds its allocations in addition."""
        return LoweredView(self.base.after(placed, version), self.taken)

    def without(
        self, placed: Iterable[tuple[Request, PlacementResult]], version: int
    ) -> LoweredView:
        """Return the view in which `placed` does not stand."""
        return LoweredView(self.base.without(placed, version), self.taken)

    def without_steps(self, steps: NDArray[np.bool_]) -> LoweredView:
        """Return the view in which no machine is free at some steps."""
        return LoweredView(self.base.without_steps(steps), self.taken)

    @property
    def version(self) -> int:
        """Version of the base."""
        return self.base.version

    @property
    def grid(self) -> TimeGrid:
        """Grid of the base."""
        return self.base.grid

    @property
    def reference(self) -> Resources:
        """The most of each resource that one machine has."""
        return self.base.reference

    @property
    def nominal(self) -> Resources:
        """All machines together."""
        return self.base.nominal

    @property
    def first(self) -> int:
        """Step of column 0."""
        return self.base.first

    @property
    def row_names(self) -> tuple[tuple[str, str], ...]:
        """(what, resource) of each row."""
        return self.base.row_names

    @property
    def segments(self) -> NDArray[np.int64]:
        """Steps at which machines come or go."""
        return self.base.segments

    @property
    def averages(self) -> AverageSlack:
        """What window averages leave."""
        return self.base.averages

    @property
    def prices(self) -> PriceList | None:
        """What a step costs."""
        return self.base.prices

    def demand(self, bundle: Resources, label: str | None, tenant: str, queue: str) -> Demand:
        """Return what a bundle takes."""
        return self.base.demand(bundle, label, tenant, queue)
