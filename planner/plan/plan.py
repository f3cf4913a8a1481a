"""The Plan: its state, and the preparation of batches of changes.

`prepare` is pure: it returns the outcome of changes on the present version. `apply` makes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.cluster.calendar import calendar_of
from planner.colours import COLOURS, OTHERS, tenant_slots
from planner.plan.batch.prepare import prepare
from planner.plan.column_reading import row_columns, scope_column
from planner.plan.records.changes import Advance, Change, Prepared
from planner.plan.state import PlanState, StaleVersionError
from rdl.durations import rfc3339_text
from rdl.resources import format_amount
from rdl.time_grid import duration_text

_Ints = NDArray[np.int64]

#: Size of a picture in pixels, and its largest number of columns.
_WIDTH: Final = 720
_HEIGHT: Final = 120
_COLUMNS: Final = 360
_FILLS: Final = (*COLOURS, OTHERS)
_MOST_LAYERS: Final = len(_FILLS)


class Plan(PlanState):
    """Every reservation with its allocation, every refusal, and the free capacity.

    Not thread-safe: one writer at a time. Snapshots may be read by any thread.

    Attributes
    ----------
    cluster, grid
        As of the present version.
    version
        Number of records applied.
    now
        The present step; 0 until the first `Advance`.
    """

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: facts, and the use of each resource over time by tenant."""

        return plan_html(self)

    def prepare(
        self,
        changes: Sequence[Change],
        based_on: int,
        *,
        atomic: bool = False,
        joint: bool = False,
        at_ms: int = 0,
    ) -> Prepared:
        """Return the outcome of a batch of changes without making them.

        Parameters
        ----------
        changes
            In order; each one sees the earlier ones.
        based_on
            Version of the view that agents used. Changes are checked against the present version:
            one that still fits is merged, one that does not becomes a `Conflict`.
        atomic
            All or nothing: with any conflict the record is None.
        joint
            Atomic, and capacity is checked once, after the last change: reservations may swap
            places.
        at_ms
            Time of the commit, in ms from the origin.

        Raises
        ------
        StaleVersionError
            If the Plan never had the version `based_on`.
        """
        if not 0 <= based_on <= self.version:
            raise StaleVersionError(f"the plan is at version {self.version}, never at {based_on}")
        return prepare(self, changes, atomic=atomic, joint=joint, at_ms=at_ms)

    def advance_to(self, step: int, horizon: int | None = None) -> None:
        """Move the present to `step`, in place. Use it on a copy, since it is not logged.

        Raises
        ------
        ValueError
            If the step is past the horizon.
        """
        if step > self.now:
            prepared = self.prepare([Advance(step, horizon)], self.version)
            if prepared.record is None:
                raise ValueError(prepared.conflicts[0].detail)
            self.apply(prepared.record)


@dataclass(frozen=True, slots=True)
class HeldLayers:
    """Amounts reserved by tenant over the steps [start, end).

    Attributes
    ----------
    names
        Tenants; the last may represent all others.
    amounts
        By resource in use, int64[names, steps].
    capacity
        By resource in use, int64[steps].
    """

    start: int
    end: int
    names: tuple[str, ...]
    amounts: dict[str, _Ints]
    capacity: dict[str, _Ints]


def plan_html(plan: PlanState) -> str:
    """Return self-contained HTML of a Plan for a notebook."""
    held = _held(plan)
    count, refused = len(plan.table), len(plan.refusals)
    machines = sum(group.count for group in plan.cluster.machines)
    facts = (
        f"Plan, version {plan.version}: {count:,} reservations, {refused:,} refusals on "
        f"{machines:,} machines"
    )
    parts = [f"<p><b>{facts}</b></p>"]
    if held is not None:
        parts += [_legend(held.names)]
        parts += [_skyline(held, name) for name in held.amounts]
        parts += [f"<p><small>{_time(plan, held.start)} to {_time(plan, held.end)}</small></p>"]
    return f'<div style="font-family: sans-serif">{"".join(parts)}</div>'


def _held(plan: PlanState) -> HeldLayers | None:
    """Return the reserved amounts from the first reserved step to the last; None without any."""
    numbers = np.arange(len(plan.table))
    columns = row_columns(plan.table, numbers)
    if not len(columns.rows):
        return None
    start, end = int(columns.rows[:, 0].min()), int(columns.rows[:, 1].max())
    scope = scope_column(plan.table, numbers, "tenant")
    slots = tenant_slots(scope.words)
    layers = np.array([slots[word] for word in scope.words], dtype=np.int64)
    layer_of = np.minimum(layers[scope.place], _MOST_LAYERS - 1)
    names = tuple(slots)[:_MOST_LAYERS]
    if len(scope.words) > _MOST_LAYERS:
        names = (*names[:-1], "others")
    amounts, capacity = {}, {}
    calendar = calendar_of(plan.cluster, start, end)
    for resource in plan.cluster.resources:
        size = np.array([one.get(resource, 0) for one in columns.bundles], dtype=np.int64)
        changes = np.zeros((len(names), end - start + 1), dtype=np.int64)
        layer, amount = layer_of[columns.number], columns.rows[:, 2] * size[columns.kind]
        np.add.at(changes, (layer, columns.rows[:, 0] - start), amount)
        np.add.at(changes, (layer, columns.rows[:, 1] - start), -amount)
        if amount.any():
            amounts[resource] = np.add.accumulate(changes[:, :-1], axis=1)
            capacity[resource] = calendar.dense(calendar.capacity(resource))
    return HeldLayers(start, end, names, amounts, capacity)


def _legend(names: Sequence[str]) -> str:
    words = (
        f'<span style="color: {colour}">&#9632;</span> {escape(name)}'
        for name, colour in zip(names, _FILLS, strict=False)
    )
    return f"<p><small>{' &nbsp; '.join(words)}</small></p>"


def _skyline(held: HeldLayers, resource: str) -> str:
    """Return stacked layers below the line of capacity."""
    amounts, capacity = held.amounts[resource], held.capacity[resource]
    edges = np.unique(np.linspace(0, held.end - held.start, _COLUMNS + 1).astype(np.int64))
    # A column shows its step with the largest total.
    peaks = np.array([first + amounts[:, first:last].sum(axis=0).argmax()
                      for first, last in pairwise(edges.tolist())])  # fmt: skip
    tops = np.add.accumulate(amounts[:, peaks], axis=0)
    least = np.minimum.reduceat(capacity, edges[:-1])
    highest = max(1, int(capacity.max()), int(tops[-1].max()))
    x = edges * _WIDTH / edges[-1]
    shapes = [
        f'<polygon fill="{_FILLS[layer]}" points="{_area(x, tops[layer], highest)}"/>'
        for layer in reversed(range(len(tops)))
    ]
    line = " ".join(_steps(x, least, highest))
    shapes.append(f'<polyline fill="none" stroke="#222222" points="{line}"/>')
    title = f"{escape(resource)}, of {escape(format_amount(resource, int(capacity.max())))}"
    return (
        f"<p><small>{title}</small><br>"
        f'<svg viewBox="0 -2 {_WIDTH} {_HEIGHT + 4}" width="{_WIDTH}" role="img" '
        f'aria-label="{title}" style="max-width: 100%">{"".join(shapes)}</svg></p>'
    )


def _area(x: NDArray[np.float64], tops: _Ints, highest: int) -> str:
    """Return a step function, closed at zero, as points; earlier layers are drawn over it."""
    steps = " ".join(_steps(x, tops, highest))
    return f"{x[0]:.1f},{_HEIGHT} {steps} {x[-1]:.1f},{_HEIGHT}"


def _steps(x: NDArray[np.float64], values: _Ints, highest: int) -> Iterator[str]:
    for (left, right), value in zip(pairwise(x.tolist()), values.tolist(), strict=True):
        y = _HEIGHT * (1 - value / highest)
        yield f"{left:.1f},{y:.1f} {right:.1f},{y:.1f}"


def _time(plan: PlanState, step: int) -> str:
    if plan.grid.origin is not None:
        return rfc3339_text(plan.grid.instant_at(plan.grid.ms(step)))
    return f"{duration_text(plan.grid.ms(step))} from the origin" if step else "the origin"
