"""The greedy agents place requests one by one, each atom by a strategy of the kernels."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import overload

import numpy as np
from numpy.typing import NDArray

from planner.agent import Limits
from planner.agents.greedy.batch import Batch, RowNames, taking_order, workspace
from planner.agents.greedy.kernels import codes
from planner.agents.greedy.kernels.alone import ALONE_CELLS, SharedProfile, SingleAtom, place_alone
from planner.agents.greedy.packing import is_single_atom
from planner.explain import (
    average_sentence,
    bundles_text,
    least_sentence,
    part_text,
    room_sentence,
    together_sentence,
)
from planner.placement import Binding, Code, PlacementResult
from planner.request import Request
from planner.view import Demand, PlanView
from rdl.compound import Compound
from rdl.local_time import zone_named
from rdl.names import part_name
from rdl.resources import format_amount
from rdl.work_graph import BUNDLE, END, KIND, MIN_HEIGHT, START, WorkGraph

#: Requests placed between two checks of the clock, `stop` and `progress`.
_STRIDE = 256

I64 = NDArray[np.int64]
_KINDS = {
    codes.NO_ROOM: "capacity",
    codes.NO_FIT: "fit",
    codes.NO_WINDOW: "window",
    codes.NO_GAP: "gap",
    codes.NO_AVERAGE: "policy",
}

# The lack that is a time rather than an amount of a resource.
_TIMED = {
    codes.NO_LEASE: "lease",
    codes.NO_AREA: "work",
    codes.NO_SHAPE: "shape",
}
_POLICY_CODES = {"quota": Code.QUOTA, "capacity_over_time": Code.CAPACITY_OVER_TIME}


@dataclass(frozen=True, slots=True)
class GreedyAgent:
    """Places requests in order, each by the first strategy that finds a place.

    Attributes
    ----------
    name
        The name that users type.
    passes
        Strategies of `planner.agents.greedy.kernels.codes`, tried in turn on a whole request.
    early
        Place as early as possible instead of as late as possible: the same rules in mirrored time.
    clock
        Monotonic seconds, for `Limits.time_s`.
    """

    name: str
    passes: tuple[int, ...]
    early: bool = False
    clock: Callable[[], float] = field(default=time.monotonic, compare=False)

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> Sequence[PlacementResult]:
        """Return one result per request; they are placed by priority, submission time, position."""
        if not requests:
            return ()
        if len(requests) == 1 and _has_no_limits(limits):
            alone = place_single(requests[0], view, self.passes, early=self.early)
            if alone is not None:
                return (alone,)
        batch = self.place(requests, view, limits)
        return LazyResults(batch, requests)

    def place(self, requests: Sequence[Request], view: PlanView, limits: Limits) -> Batch:
        """Place at least one request; the results stay in arrays."""
        batch = Batch.of(requests, view)
        self.run(batch, taking_order(requests), limits)
        return batch

    def run(self, batch: Batch, order: NDArray[np.int64], limits: Limits) -> None:
        """Place the requests in `order` of a packed batch, checking the limits periodically."""
        passes = np.array(self.passes, dtype=np.int64)
        if _has_no_limits(limits):
            batch.place(order, passes, self.early)
            return
        until = None if limits.time_s is None else self.clock() + limits.time_s
        for begin in range(0, len(order), _STRIDE):
            if limits.stop is not None and limits.stop():
                return
            if until is not None and self.clock() >= until:
                return
            batch.place(order[begin : begin + _STRIDE], passes, self.early)
            if limits.progress is not None:
                limits.progress(min(begin + _STRIDE, len(order)), len(order))


def _has_no_limits(limits: Limits) -> bool:
    return limits.time_s is None and limits.stop is None and limits.progress is None


#: Whole leases from the right; retries a refused request with the compact shape first.
GREE = GreedyAgent("gree", (codes.BLOCKS, codes.COMPACT))

#: GREE from the left: everything as early as possible.
EARLIEST = GreedyAgent("earliest", (codes.BLOCKS, codes.COMPACT), early=True)

#: EARLIEST with the compact shape first: minimal completion time on a flat profile.
EARLIEST_COMPACT = GreedyAgent("earliest-compact", (codes.COMPACT,), early=True)


#: Lowest rectangle in intervals by the square root of work. Does not retry a refused workflow as
#: GREE does, which would accept a tenth more workflows and triple their falls; but it retries
#: requests with maximum gaps, because leapfrog needs the latest starts.
GREE_L = GreedyAgent("gree-l", (codes.LOWEST, codes.GAPS))


#: The free rectangle that leaves the most headroom; ties go to the latest.
ALIGNED = GreedyAgent("aligned", (codes.HEADROOM, codes.COMPACT))

#: That rectangle or a refusal: squeezing nothing in leaves capacity for more requests.
HEADROOM_ALONE = GreedyAgent("headroom", (codes.HEADROOM_ONLY,))

#: The highest level of headroom at which the work still fits: admits the most work.
LEVELLED = GreedyAgent("level", (codes.LEVEL, codes.COMPACT))


def constant(values: list[int]) -> I64:
    """Return a read-only array."""
    array = np.array(values, dtype=np.int64)
    array.flags.writeable = False
    return array


_EMPTY = constant([])
_NO_FIRST = constant([0])
_NO_ROWS = constant([]).reshape(0, 3)
FIRST_VERTEX = constant([0])
ONE_ROW = constant([0, 1])


class LazyResults(Sequence[PlacementResult]):
    """One result per request, in input order; views of the arrays of a batch.

    The batch must not be placed again while its results are read.
    """

    def __init__(self, batch: Batch, requests: Sequence[Request]) -> None:
        self._batch = batch
        self._requests = requests
        self._results: list[PlacementResult | None] = [None] * len(requests)

    def __len__(self) -> int:
        return len(self._results)

    @overload
    def __getitem__(self, index: int) -> PlacementResult: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[PlacementResult]: ...
    def __getitem__(self, index: int | slice) -> PlacementResult | Sequence[PlacementResult]:
        if isinstance(index, slice):
            return [self._result(one) for one in range(*index.indices(len(self)))]
        count = len(self._results)
        if not -count <= index < count:
            raise IndexError(f"there are {count} answers, none at {index}")
        return self._result(index % count)

    def __iter__(self) -> Iterator[PlacementResult]:
        return (self._result(index) for index in range(len(self)))

    def _result(self, index: int) -> PlacementResult:
        result = self._results[index]
        if result is None:
            result = self._results[index] = self._read(index)
        return result

    def _read(self, index: int) -> PlacementResult:
        out, request = self._batch.out, self._requests[index]
        state = out.status[index].tolist()
        if state[codes.OUTCOME] != codes.PLACED:
            return refusal_of(request, state, self._batch.row_names)
        v, count, f, r, rows, _c, choices = out.extents[index].tolist()
        plain = count == 1 and rows == 1 and len(request.graph.vertices) == 1
        return PlacementResult(
            None,
            "",
            FIRST_VERTEX if plain else _part(out.vertices, v, count),
            ONE_ROW if plain else _part(out.first, f, count + 1),
            _part(out.rows, r, rows),
            self._batch.choices(index) if choices else (),
        )


def refusal_of(request: Request, state: list[int], names: RowNames) -> PlacementResult:
    """Return the refusal that a status row reports."""
    outcome, vertex, why, column, row, needed, free, _strategy = state
    if outcome == codes.PENDING:
        return _refusal(Code.TIME_LIMIT, "the run was stopped before this request was tried")
    graph, base = request.graph, names.base
    path, grid, zone = graph.paths[vertex], graph.grid, zone_named(graph.expression)
    name = part_name(graph.expression, path)
    if why == codes.NO_AVERAGE:
        average, of = names.average(row)
        # The window of an average may start before the first column.
        binding = Binding(path, "policy", column + base, of, needed, free, average, name)
        return _refusal(Code.CAPACITY_OVER_TIME, average_sentence(grid, binding, zone), binding)
    at = None if column < 0 else column + base
    what, resource = names.row(row)
    kind, _, policy = what.partition(":")
    code = _POLICY_CODES.get(kind)
    named = None if code is None else policy
    if why in _TIMED:
        amounts = (needed * grid.step_ms, free * grid.step_ms)
        binding = Binding(path, _TIMED[why], at, resource, *amounts, named, name)
        detail = room_sentence(grid, binding, _least_text(graph, vertex, resource), zone)
        return _refusal(code or Code.CAPACITY, detail, binding)
    if at is None:
        binding = Binding(path, _KINDS[why], name=name)
        return _refusal(Code.CAPACITY, _order_sentence(graph, vertex, binding), binding)
    short = "policy" if named else ("capacity" if resource else _KINDS[why])
    binding = Binding(path, short, at, resource, needed, free, named, name)
    bundle = graph.bundles[int(graph.vertices[vertex, BUNDLE])]
    if resource is None and isinstance(bundle, Compound):
        detail = together_sentence(grid, binding, sum(one.count for one in bundle.members), zone)
        return _refusal(code or Code.CAPACITY, detail, binding)
    return _refusal(code or Code.CAPACITY, least_sentence(grid, binding, zone), binding)


def _least_text(graph: WorkGraph, vertex: int, resource: str | None) -> str:
    """Return the need of an atom's minimum height: of one resource, or in bundles."""
    row = graph.vertices[vertex]
    height, bundle = int(row[MIN_HEIGHT]), int(row[BUNDLE])
    amount = 0 if resource is None or bundle < 0 else graph.bundles[bundle].get(resource, 0)
    return format_amount(resource or "", amount * height) if amount else bundles_text(height)


def _refusal(code: Code, detail: str, binding: Binding | None = None) -> PlacementResult:
    return PlacementResult(code, detail, _EMPTY, _NO_FIRST, _NO_ROWS, (), binding)


def _part(array: I64, first: int, count: int) -> I64:
    """Return a read-only view of some entries."""
    part = array[first : first + count]
    part.flags.writeable = False
    return part


def _order_sentence(graph: WorkGraph, vertex: int, binding: Binding) -> str:
    part = part_text(binding)
    if binding.kind == "gap":
        return f"{part} finds no place that keeps the largest gap around it"
    if graph.vertices[vertex, KIND]:
        return f"no option of {part} fits before what must follow it"
    return f"{part} finds no place: what must follow it leaves too little time"


# Packing a table, a profile and an output for it would cost more than its placement. It is placed
# as a batch only if it needs more rows than the scratch has.


def place_single(
    request: Request, view: PlanView, passes: tuple[int, ...], *, early: bool
) -> PlacementResult | None:
    """Return the placement or refusal of a single atom, or None if it needs a batch.

    Requests of several atoms, with too many rows, or on a view without shared arrays need a batch.

    Parameters
    ----------
    passes
        Strategies of `planner.agents.greedy.kernels.codes`, tried in order.
    early
        Place in mirrored time.
    """
    if not is_single_atom(request):
        return None
    graph = request.graph
    demand = view.demand(graph.bundles[0], None, request.tenant, request.queue)
    arrays, averages = view.arrays(), view.averages
    if arrays is None:
        return None
    takes, fit = _arrays_of(demand)
    vertices = graph.vertices.copy()
    scratch = workspace().room(int(vertices[0, END] - vertices[0, START]))
    state = np.empty(ALONE_CELLS, dtype=np.int64)
    count = place_alone(
        SingleAtom(vertices, takes, fit, _passes(passes)),
        SharedProfile(*arrays, averages.windows, view.segments),
        scratch.steps,
        scratch.rows,
        state,
        view.first,
        averages.offset,
        int(early),
    )
    if count < 0:
        return None
    if count == 0:
        start = min(max(view.first, int(vertices[0, START])), view.first + arrays.free.shape[1] - 1)
        return refusal_of(request, state.tolist()[: codes.STATUS_COLUMNS], RowNames(view, start))
    rows = scratch.rows[:count].copy()
    rows.flags.writeable = False
    first = ONE_ROW if count == 1 else constant([0, count])
    return PlacementResult(None, "", FIRST_VERTEX, first, rows, ())


@lru_cache(maxsize=64)
def _passes(passes: tuple[int, ...]) -> I64:
    return np.array(passes, dtype=np.int64)


@lru_cache(maxsize=4096)
def _arrays_of(demand: Demand) -> tuple[I64, I64]:
    """Return `takes` and `fit` of a `SingleAtom`."""
    head = (0, len(demand.rows), 0, len(demand.averages))
    takes = (*head, *demand.rows, *demand.amounts, *demand.averages, *demand.average_amounts)
    return np.array(takes, dtype=np.int64), np.array([demand.fit], dtype=np.int64)
