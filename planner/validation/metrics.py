"""Recompute the metrics of a plan document from its rows.

Shares no code with `planner.metrics`. The acceptance is not recomputed: the document does not say
whether a refused request compiled, and a request that did not compile has no size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final

import numpy as np

from planner.cluster.cluster import Cluster
from planner.validation.capacity import used_by
from planner.validation.document import WHOLE, Held, PlanViolation
from rdl.expressions import AnyOf, Atom, Every, Expression, children_of
from rdl.oracle.atoms import lease_and_work
from rdl.resources import CPU, Resources
from rdl.time_grid import TimeGrid

#: States whose promise counts as value: a voluntary release was promised too.
PROMISED = (*WHOLE, "cancelled")


#: The number of a run of a recurrence in a source path.
_RUN: Final = re.compile(r"@\d+")

#: Relative amount by which a proven bound may be below the value: solvers round.
_BOUND_TOLERANCE = 1e-6


class _UnknownError(Exception):
    """The document does not determine a size; never leaves this file."""


def metrics_violations(
    said: Mapping[str, object],
    held: Sequence[Held],
    refusals: int,
    cluster: Cluster,
    grid: TimeGrid,
) -> list[PlanViolation]:
    """Return the metrics that differ from the recomputed ones."""
    heights = [
        [0, *_heights(atom.rows.tolist()), 0]
        for entry in held
        for atom in entry.atoms
        if len(atom.rows)
    ]
    falls = sum(max(0, a - b) for x in heights for a, b in pairwise(x))
    last = sum(x[-2] for x in heights)
    recounted: dict[str, float | None] = {
        "accepted": sum(entry.state in PROMISED for entry in held),
        "requests": len(held) + refusals,
        "falls": falls,
        "falls_inner": falls - last,
        "uniformity": _uniformity(held, cluster, grid),
    }
    if "cost" in said:
        recounted["cost"] = _cost(held, cluster, grid)
    with suppress(_UnknownError):  # unknown runs of an option not taken
        recounted["value"] = math.fsum(_value(entry, cluster, grid) for entry in held)
    found = [
        PlanViolation(f"/metrics/{name}", "metrics", f"is {amount}, not {said.get(name)!r}")
        for name, amount in recounted.items()
        if not _close(said.get(name), amount, 1e-9 if name == "value" else 0.001)
    ]
    return found + _bound_violations(said.get("value"), said.get("bound"), said.get("gap"))


def _bound_violations(value: object, bound: object, gap: object) -> list[PlanViolation]:
    """Check that the bound is not below the value, and that the gap matches."""
    if not _is_number(value):
        return []  # that is notified of the value itself
    if bound is not None and not _is_number(bound):
        return [PlanViolation("/metrics/bound", "metrics", f"{bound!r} is not a number")]
    held, most = float(str(value)), None if bound is None else float(str(bound))
    if most is not None and most < held - _BOUND_TOLERANCE * max(1.0, abs(held)):
        detail = f"no plan is worth more than its bound, but {held:g} is the value of this one"
        return [PlanViolation("/metrics/bound", "metrics", f"is {most:g}: {detail}")]
    wanted = None if most is None else max(0.0, 1 - held / most) if most > 0 else 0.0
    if _close(gap, wanted, 0.001):
        return []
    return [PlanViolation("/metrics/gap", "metrics", f"is {wanted}, not {gap!r}")]


def _value(entry: Held, cluster: Cluster, grid: TimeGrid) -> float:
    """Return weight x size x worth; the size is that of the first option of each `any`."""
    if entry.state not in PROMISED:
        return 0.0
    paths = [atom.path for atom in entry.atoms]
    size = _size(entry.expression, "", paths, (cluster.reference, grid.step_ms))
    worth = _worth(entry.expression, "", paths, entry.choices, (cluster.reference, grid.step_ms))
    return entry.weight * size * worth * grid.step_ms / 3_600_000


def _worth(
    here: Expression,
    path: str,
    held: Sequence[str],
    choices: Mapping[str, int],
    of: tuple[Resources, int],
) -> float:
    """Return the worth of an expression: parts count by size, an option by its preference."""
    if isinstance(here, AnyOf):
        option = _option(path, choices)
        if option is None or not 0 <= option < len(here.options):
            return 1.0  # the oracle reports an invalid choice
        prefer = 1.0 if here.prefer is None else here.prefer[option]
        return prefer * _worth(here.options[option], _child(path, option), held, choices, of)
    parts = [(child, _child(path, index)) for index, child in enumerate(children_of(here))]
    if isinstance(here, Every):
        before = f"{parts[0][1]}@"
        runs = {p.removeprefix(before).partition(".")[0] for p in held if p.startswith(before)}
        parts = [(here.of, f"{before}{run}") for run in sorted(runs)]
    sizes = [_size(child, at, held, of) for child, at in parts]
    worths = [_worth(child, at, held, choices, of) for child, at in parts]
    total = math.fsum(sizes)
    if total <= 0:
        return 1.0
    return math.fsum(size * worth for size, worth in zip(sizes, worths, strict=True)) / total


def _option(path: str, choices: Mapping[str, int]) -> int | None:
    """Return the option of the `any` at a path; runs at the same offset share the first one's."""
    if path in choices:
        return choices[path]
    plain = _RUN.sub("", path)
    return next((option for at, option in choices.items() if _RUN.sub("", at) == plain), None)


def _size(here: Expression, path: str, held: Sequence[str], of: tuple[Resources, int]) -> float:
    """Return work x dominant share in core-steps; `of` is (largest amounts, ms a step)."""
    match here:
        case Atom():
            known = {name: amount for name, amount in here.bundle.items() if name in of[0]}
            work = lease_and_work(here, of[1])[1] or 0
            share = Resources.of(known).dominant_share(of[0])
            return work * share * of[0].get(CPU, 1000) / 1000
        case AnyOf():
            return _size(here.options[0], _child(path, 0), held, of)
        case Every():
            before = f"{_child(path, 0)}@"
            found = {p.removeprefix(before).partition(".")[0] for p in held if p.startswith(before)}
            if not found:
                raise _UnknownError
            return math.fsum(_size(here.of, f"{before}{k}", held, of) for k in sorted(found))
        case _:
            parts = enumerate(children_of(here))
            return math.fsum(_size(child, _child(path, i), held, of) for i, child in parts)


def _child(path: str, index: int) -> str:
    return f"{path}.{index}" if path else str(index)


def _cost(held: Sequence[Held], cluster: Cluster, grid: TimeGrid) -> float | None:
    """Return the sum over steps of work x price factor; None if there are no prices."""
    if not cluster.prices:
        return None
    factors = cluster.price_factors(grid)
    return math.fsum(
        float(factors[max(0, start) : max(0, end)].sum())
        * bundles
        * atom.bundle.dominant_share(cluster.nominal)
        for entry in held
        for atom in entry.atoms
        for start, end, bundles in atom.rows.tolist()
    )


def _heights(rows: list[list[int]]) -> list[int]:
    """Return the heights in order of time, 0 for gaps between rows."""
    heights: list[int] = []
    end = rows[0][0]
    for row in rows:
        heights += [row[2]] if row[0] == end else [0, row[2]]
        end = row[1]
    return heights


def _uniformity(held: Sequence[Held], cluster: Cluster, grid: TimeGrid) -> float | None:
    atoms = [atom for entry in held for atom in entry.atoms]
    shares = [
        used_by(atoms, resource, grid.horizon) / amount
        for resource, amount in cluster.nominal.items()
    ]
    if not shares:
        return None
    most = max(shares, key=lambda share: float(np.mean(share)))
    mean = float(np.mean(most))
    return float(np.sqrt(np.mean((most - mean) ** 2))) / mean if mean > 0 else None


def _close(said: object, amount: float | None, least: float) -> bool:
    if amount is None or said is None:
        return said is amount
    # Files round uniformity to three decimals, cost and value to twelve digits; others are
    # integers.
    known = _is_number(said) and math.isfinite(amount)
    return known and abs(float(str(said)) - amount) <= max(least, 1e-9 * abs(amount))


def _is_number(said: object) -> bool:
    return isinstance(said, int | float) and not isinstance(said, bool)
