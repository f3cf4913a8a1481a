"""LinearModel: named blocks of variables and sparse rows, added in bulk as NumPy arrays.

Nothing here loops over variables or rows in Python; a solver receives the complete arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lp.arrays import BoolArray, IntArray, ModelArrays, Sense
from lp.limits import ModelError
from lp.result import FloatArray


@dataclass(frozen=True, slots=True)
class Block:
    """A contiguous range of columns or rows under one name."""

    name: str
    start: int
    count: int

    @property
    def stop(self) -> int:
        """First index after the block."""
        return self.start + self.count

    @property
    def span(self) -> slice:
        """The block as a slice of the model's columns or rows."""
        return slice(self.start, self.stop)

    @property
    def indices(self) -> IntArray:
        """Indices of the block in the model, shape (count,)."""
        return np.arange(self.start, self.stop, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Entries:
    """Coefficients in coordinate form; repeated positions add up.

    Attributes
    ----------
    rows
        Row of each coefficient, counted from the first row of its own block.
    columns
        Column of each coefficient, in the model's numbering.
    values
        The coefficients; the three arrays have the same shape (n,).
    """

    rows: ArrayLike
    columns: ArrayLike
    values: ArrayLike


class LinearModel:
    """A linear model under construction.

    Examples
    --------
    >>> model = LinearModel("two machines", Sense.MAXIMISE)
    >>> jobs = model.add_block("jobs", 2, cost=1.0)
    >>> row = model.add_rows("cores", 1, Entries([0, 0], jobs.indices, [3.0, 3.0]), upper=10.0)
    """

    def __init__(self, name: str = "model", sense: Sense = Sense.MINIMISE) -> None:
        self.name = name
        self.sense = sense
        self.offset = 0.0
        self._blocks: dict[str, Block] = {}
        self._row_blocks: dict[str, Block] = {}
        self._columns: list[tuple[FloatArray, FloatArray, FloatArray, BoolArray]] = []
        self._rows: list[tuple[FloatArray, FloatArray]] = []
        self._entries: list[tuple[NDArray[np.int64], IntArray, FloatArray]] = []
        self._assembled: ModelArrays | None = None

    @property
    def column_count(self) -> int:
        """Number of variables so far."""
        return sum(block.count for block in self._blocks.values())

    @property
    def row_count(self) -> int:
        """Number of rows so far."""
        return sum(block.count for block in self._row_blocks.values())

    def add_block(
        self,
        name: str,
        count: int,
        *,
        cost: ArrayLike = 0.0,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        integer: ArrayLike = False,
    ) -> Block:
        """Add `count` variables under one name; scalars apply to the whole block.

        Raises
        ------
        lp.limits.ModelError
            If the name is taken, a shape is not (count,), a cost is not finite, or a lower bound
            exceeds its upper bound.
        """
        block = _new_block(self._blocks, name, self.column_count, count, "variable")
        costs = _full_array(cost, count, f"{name}.cost")
        low, high = _bounds(lower, upper, count, name)
        if not np.isfinite(costs).all():
            raise ModelError(f"{name}.cost[{_first(~np.isfinite(costs))}] is not a finite number")
        whole = _full_array(integer, count, f"{name}.integer") != 0
        self._blocks[name] = block
        self._columns.append((costs, low, high, whole))
        self._assembled = None
        return block

    def add_rows(
        self,
        name: str,
        count: int,
        entries: Entries,
        *,
        lower: ArrayLike = -np.inf,
        upper: ArrayLike = np.inf,
    ) -> Block:
        """Add `count` rows lower <= entries @ x <= upper under one name.

        Raises
        ------
        lp.limits.ModelError
            If the name is taken, the arrays disagree in shape, an index is out of range, or a
            coefficient is not finite.
        """
        block = _new_block(self._row_blocks, name, self.row_count, count, "row")
        low, high = _bounds(lower, upper, count, name)
        rows = _whole(entries.rows, f"{name}: row indices")
        columns = _whole(entries.columns, f"{name}: column indices")
        values = np.asarray(entries.values, dtype=np.float64).ravel()
        if not rows.size == columns.size == values.size:
            raise ModelError(
                f"{name}: {rows.size} row indices, {columns.size} column indices and "
                f"{values.size} coefficients; expected as many of each"
            )
        _check_range(rows, count, f"{name}: row index")
        _check_range(columns, self.column_count, f"{name}: column index")
        if not np.isfinite(values).all():
            raise ModelError(
                f"{name}: coefficient {_first(~np.isfinite(values))} is not a finite number"
            )
        self._row_blocks[name] = block
        self._rows.append((low, high))
        self._entries.append((rows + block.start, columns.astype(np.int32), values))
        self._assembled = None
        return block

    def assemble(self) -> ModelArrays:
        """The model as arrays; cached until the next change."""
        if self._assembled is None:
            self._assembled = self._assemble()
        return self._assembled

    def _assemble(self) -> ModelArrays:
        cost = _concatenate([column[0] for column in self._columns])
        lower = _concatenate([column[1] for column in self._columns])
        upper = _concatenate([column[2] for column in self._columns])
        integer = np.concatenate([np.empty(0, np.bool_), *(part[3] for part in self._columns)])
        row_lower, row_upper = (
            _concatenate([row[part] for row in self._rows]) for part in range(2)
        )
        starts, indices, values = self._matrix_by_row()
        for array in (cost, lower, upper, integer, row_lower, row_upper, starts, indices, values):
            array.flags.writeable = False
        return ModelArrays(
            name=self.name,
            sense=self.sense,
            offset=self.offset,
            cost=cost,
            lower=lower,
            upper=upper,
            integer=integer,
            row_lower=row_lower,
            row_upper=row_upper,
            starts=starts,
            indices=indices,
            values=values,
            blocks=_spans(self._blocks),
            row_blocks=_spans(self._row_blocks),
        )

    def _matrix_by_row(self) -> tuple[IntArray, IntArray, FloatArray]:
        from scipy.sparse import coo_array

        rows = np.concatenate([np.empty(0, np.int64), *(part[0] for part in self._entries)])
        columns = np.concatenate([np.empty(0, np.int32), *(part[1] for part in self._entries)])
        values = _concatenate([part[2] for part in self._entries])
        shape = (self.row_count, self.column_count)
        matrix = coo_array((values, (rows, columns)), shape=shape).tocsr()
        matrix.sum_duplicates()
        return (
            matrix.indptr.astype(np.int32, copy=False),
            matrix.indices.astype(np.int32, copy=False),
            matrix.data,
        )


def _new_block(taken: Mapping[str, Block], name: str, start: int, count: int, kind: str) -> Block:
    if name in taken:
        raise ModelError(f"the model already has a {kind} block {name!r}")
    if count < 0:
        raise ModelError(f"{kind} block {name!r} has count {count}: expected >= 0")
    return Block(name, start, count)


def _whole(indices: ArrayLike, what: str) -> NDArray[np.int64]:
    """Return 64-bit indices: an index out of range must not wrap into the range, nor be rounded."""
    array = np.asarray(indices).ravel()
    if array.size and array.dtype.kind not in "iu":
        raise ModelError(f"{what} are of type {array.dtype}: expected whole numbers")
    return array.astype(np.int64)


def _full_array(values: ArrayLike, count: int, what: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape not in ((), (count,)):
        raise ModelError(f"{what} has shape {array.shape}: expected a number or ({count},)")
    return np.broadcast_to(array, (count,)).copy()


def _bounds(
    lower: ArrayLike, upper: ArrayLike, count: int, name: str
) -> tuple[FloatArray, FloatArray]:
    low, high = (
        _full_array(lower, count, f"{name}.lower"),
        _full_array(upper, count, f"{name}.upper"),
    )
    crossed = ~(low <= high)
    if crossed.any():
        at = _first(crossed)
        raise ModelError(f"{name}[{at}]: lower bound {low[at]} and upper bound {high[at]} cross")
    return low, high


def _check_range(indices: NDArray[np.signedinteger], count: int, what: str) -> None:
    outside = (indices < 0) | (indices >= count)
    if outside.any():
        raise ModelError(f"{what} {int(indices[_first(outside)])}: expected 0 to {count - 1}")


def _first(mask: BoolArray) -> int:
    return int(np.argmax(mask))


def _concatenate(parts: list[FloatArray]) -> FloatArray:
    return np.concatenate([np.empty(0), *parts])


def _spans(blocks: Mapping[str, Block]) -> Mapping[str, slice]:
    return MappingProxyType({name: block.span for name, block in blocks.items()})
