"""Results of a batch, each made from the output arrays when it is read.

Making objects takes half of the time of a batch (greedy.md 3.3), and a commit from arrays needs
none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from planner.agents.greedy.batch import RowNames
from planner.agents.greedy.kernels import codes
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
from rdl.compound import Compound
from rdl.local_time import zone_named
from rdl.names import part_name
from rdl.resources import format_amount
from rdl.work_graph import BUNDLE, KIND, MIN_HEIGHT, WorkGraph

if TYPE_CHECKING:
    from planner.agents.greedy.batch import Batch

I64 = NDArray[np.int64]


def constant(values: list[int]) -> I64:
    """Return a read-only array."""
    array = np.array(values, dtype=np.int64)
    array.flags.writeable = False
    return array


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
_EMPTY = constant([])
_NO_FIRST = constant([0])
_NO_ROWS = constant([]).reshape(0, 3)
FIRST_VERTEX = constant([0])
ONE_ROW = constant([0, 1])
_POLICY_CODES = {"quota": Code.QUOTA, "capacity_over_time": Code.CAPACITY_OVER_TIME}


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
