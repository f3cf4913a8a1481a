"""The demand of one run of a compiled request: its work, and its concurrent amounts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rdl.compile.shapes import heights_of
from rdl.compound import parts_of
from rdl.expressions import AnyOf, Atom, Expression, Graph, Order, Together, children_of
from rdl.work_graph import SATISFIABLE, SHIFT_COUNT, WorkGraph

#: Matches the number of an occurrence in a path.
_OCCURRENCE: Final = re.compile(r"@\d*")

#: Amounts by resource; for work, amounts times ms.
Amounts = dict[str, int]


@dataclass(slots=True)
class RunDemand:
    """Work and concurrent amounts of a run, by resource."""

    work: Amounts
    at_once: Amounts


def demand_of(graph: WorkGraph, runs: int) -> tuple[RunDemand, RunDemand]:
    """Return the smallest and the largest demand of one of `runs` runs.

    Unsatisfiable options do not count; parts of a recurrence inside a run count once per
    occurrence.
    """
    found = _demand(graph.expression, "", _counts(graph, runs))
    return found or (RunDemand({}, {}), RunDemand({}, {}))


def _counts(graph: WorkGraph, runs: int) -> dict[str, int]:
    """Return the number of occurrences of each atom in a run, by path without occurrences."""
    counts: dict[str, int] = {}
    kept: set[str] = set()
    for vertex in graph.atoms.tolist():
        for part in parts_of(graph, vertex):
            path = _OCCURRENCE.sub("", part.path)
            counts[path] = counts.get(path, 0) + int(graph.vertices[vertex, SHIFT_COUNT])
            if graph.vertices[vertex, SATISFIABLE]:
                kept.add(path)
    return {path: max(1, counts[path] // runs) for path in kept}


def _demand(
    here: Expression, path: str, counts: Mapping[str, int]
) -> tuple[RunDemand, RunDemand] | None:
    """Return the smallest and the largest demand of an expression; None if it is left out."""
    if isinstance(here, Atom):
        return _demand_of_atom(here, counts[path]) if path in counts else None
    found = [
        _demand(child, f"{path}.{index}" if path else str(index), counts)
        for index, child in enumerate(children_of(here))
    ]
    parts = [part for part in found if part is not None]
    lows, highs = [low for low, _ in parts], [high for _, high in parts]
    if isinstance(here, AnyOf):
        least = RunDemand(_least([one.work for one in lows]), _least([one.at_once for one in lows]))
        most = RunDemand(_most([one.work for one in highs]), _most([one.at_once for one in highs]))
        return (least, most) if parts else None
    if len(parts) < len(found):
        return None
    together = _most if _one_by_one(here) else _sum
    at_least = _sum if isinstance(here, Together) else _most
    return (
        RunDemand(_sum([one.work for one in lows]), at_least([one.at_once for one in lows])),
        RunDemand(_sum([one.work for one in highs]), together([one.at_once for one in highs])),
    )


def _demand_of_atom(atom: Atom, count: int) -> tuple[RunDemand, RunDemand]:
    """Return the smallest and the largest demand of `count` occurrences, in whole gangs."""
    low, high = heights_of(atom.minimum, atom.maximum, atom.multiple)
    items = atom.bundle.items_
    work = {name: amount * atom.work_ms * count for name, amount in items}
    held = {name: amount * low * atom.multiple for name, amount in items}
    most = {name: amount * high * atom.multiple for name, amount in items}
    return RunDemand(work, held), RunDemand(work, most)


def _one_by_one(here: Expression) -> bool:
    """Return whether no two children can run at the same time."""
    if isinstance(here, Order):
        return True
    if not isinstance(here, Graph):
        return False
    follows = {(edge.before, edge.after) for edge in here.edges}
    count = len(here.children)
    return all((one, one + 1) in follows for one in range(count - 1))


def _least(all_amounts: list[Amounts]) -> Amounts:
    names = sorted(set().union(*all_amounts))
    return {name: min(amounts.get(name, 0) for amounts in all_amounts) for name in names}


def _most(all_amounts: list[Amounts]) -> Amounts:
    names = sorted(set().union(*all_amounts))
    return {name: max(amounts.get(name, 0) for amounts in all_amounts) for name in names}


def _sum(all_amounts: list[Amounts]) -> Amounts:
    names = sorted(set().union(*all_amounts))
    return {name: sum(amounts.get(name, 0) for amounts in all_amounts) for name in names}
