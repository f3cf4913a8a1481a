"""Commitments: reservations that may be placed again; moves: their fixed part and the rest."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from planner.cluster.cluster import Cluster
from planner.placement import Code, PlacementResult
from planner.plan.plan import Plan
from planner.remainder import FixedAtom, PastChangedError, remainder_of
from planner.renegotiation import Continuation, fixed_of, numbers_of
from planner.request import Request
from planner.reservations.holding import without_after
from planner.reservations.reservation import AtomAllocation, Holding, Rows
from planner.reservations.rows import split
from planner.reservations.state import State
from planner.value import held_value, importance, preference_losses, size_of
from rdl.compile.compiler import compile_expression, compile_source
from rdl.compound import parts_of
from rdl.errors import RdlError
from rdl.resources import Resources
from rdl.work_graph import END, START, WorkGraph

#: Matches the number of an occurrence in a path.
_OCCURRENCE: Final = re.compile(r"@(\d+|\*)")

#: States in which the whole request is held.
_WHOLE: Final = (State.ACCEPTED, State.ACTIVE)


class LazyRequest:
    """A request that is compiled at first use, or the reason why it does not compile."""

    __slots__ = ("_found", "_make")

    def __init__(self, make: Callable[[], tuple[Request | None, str]]) -> None:
        self._make = make
        self._found: tuple[Request | None, str] | None = None

    def get(self) -> tuple[Request | None, str]:
        """Return the request and an empty text, or None and the reason."""
        if self._found is None:
            self._found = self._make()
        return self._found


@dataclass(frozen=True, slots=True)
class Commitment:
    """One live reservation of a Plan.

    Attributes
    ----------
    number, id, tenant, queue, revision, state
        As on the Plan.
    before
        Its allocation.
    value
        Value of keeping it: weight x size x worth of the chosen options.
    source
        The whole request, compiled at first use.
    choices
        Chosen option by path of each `any`.
    started
        Whether any of it has started.
    priority
        Of two commitments the one with the lower priority is displaced.
    """

    number: int
    id: str
    tenant: str
    queue: str
    revision: int
    state: State
    before: Holding
    value: float
    source: LazyRequest
    choices: Mapping[str, int] = field(default_factory=dict)
    started: bool = False
    priority: int = 0

    @property
    def importance(self) -> tuple[int, float, int]:
        """Sort key, the least important first."""
        return importance(self.priority, self.value, self.number)

    @property
    def request(self) -> Request | None:
        """The whole request on the Plan's grid; None if it no longer compiles."""
        return self.source.get()[0]

    @property
    def why(self) -> str:
        """Why it does not compile, empty if it does."""
        return self.source.get()[1]

    def occurrences(self) -> Iterator[tuple[AtomAllocation, str, Rows]]:
        """Yield (atom, path, rows) of every occurrence with rows."""
        for atom in self.before.atoms:
            if len(atom.rows):
                for path, rows in atom.occurrences():
                    yield atom, path, rows

    def past(self, now: int) -> Holding:
        """Return its holding without the future."""
        return _mark_as_lost(without_after(self.before, now))


def _mark_as_lost(holding: Holding) -> Holding:
    """Return a holding whose cut-off rows count as lost, not as released by the owner."""
    atoms = tuple(one.part(one.path, one.rows) for one in holding.atoms if len(one.rows))
    return Holding(atoms, holding.begin, holding.finish)


def by_importance(commitments: Iterable[Commitment]) -> list[Commitment]:
    """Return commitments, the most important first."""
    return sorted(commitments, key=lambda one: one.importance, reverse=True)


def window_of(commitment: Commitment, plan: Plan) -> tuple[int, int]:
    """Return the (start, end) steps in which a commitment may have an allocation."""
    if commitment.request is None or not len(commitment.request.graph.vertices):
        return plan.now, plan.grid.horizon
    root = commitment.request.graph.vertices[-1]
    return max(plan.now, int(root[START])), int(root[END])


def commitment_of(plan: Plan, number: int, cluster: Cluster | None = None) -> Commitment:
    """Return reservation `number` of a Plan.

    Parameters
    ----------
    cluster
        Machines to compile for; by default the Plan's.
    """
    table = plan.table
    meta, details, before = table.meta[number], table.details.get(number), table.holding(number)
    tenant, queue = table.scope(number)
    choices = dict(details.choices)
    source = LazyRequest(lambda: _compile(plan, number, cluster))
    state = table.state(number)
    started = any(
        int(atom.rows[0, 0]) + atom.shifts[0] < plan.now for atom in before.atoms if len(atom.rows)
    )
    return Commitment(
        number,
        table.id_of(number),
        tenant,
        queue,
        int(meta["revision"]),
        state,
        before,
        _value(plan, float(meta["weight"]), before, source, choices, whole=state in _WHOLE),
        source,
        choices,
        started,
        int(meta["priority"]),
    )


def _compile(plan: Plan, number: int, cluster: Cluster | None) -> tuple[Request | None, str]:
    """Compile the request of reservation `number`; None and the reason if it does not compile."""
    table = plan.table
    details = table.details.get(number)
    submitted_ms = int(table.meta[number]["submitted"])
    context = (plan.cluster if cluster is None else cluster).context(plan.grid, submitted_ms)
    try:
        if details.expression is not None:
            graph = compile_expression(details.expression, context)
        else:
            graph = compile_source(details.text, context)
    except RdlError as error:
        return None, str(error)
    return Request(**table.header(number), graph=graph), ""


def _value(
    plan: Plan,
    weight: float,
    held: Holding,
    source: LazyRequest,
    choices: Mapping[str, int],
    *,
    whole: bool,
) -> float:
    """Return weight x size x worth; without choices the size of a whole one is that of its rows."""
    reference = plan.cluster.reference
    if whole and not choices:
        return held_value(weight, held.atoms, reference, plan.grid.step_ms)
    request = source.get()[0]
    if request is None:
        return weight
    return weight * size_of(request.graph, reference) * _worth(request.graph, choices, reference)


def _worth(graph: WorkGraph, choices: Mapping[str, int], reference: Resources) -> float:
    """Return the worth of the chosen options, at most 1; `choices` by path of the `any`."""
    taken = [vertex for vertex, path, option in graph.options if choices.get(path) == option]
    return 1.0 - math.fsum(preference_losses(graph, reference)[taken].tolist())


@dataclass(frozen=True, slots=True)
class Move(Continuation):
    """A commitment with a fixed part and a rest to place."""

    commitment: Commitment


def move_of(
    plan: Plan, commitment: Commitment, keep: Mapping[str, FixedAtom] | None = None
) -> Move | PlacementResult:
    """Return a commitment ready to be placed again, or the refusal.

    Parameters
    ----------
    keep
        In addition to the started part: parts that stay as they are (`FixedAtom.whole`) or are
        reduced (with `left`), by atom path.
    """
    request = commitment.request
    if request is None:
        return PlacementResult(Code.UNSATISFIABLE, commitment.why)
    try:
        fixed = fixed_of(request.graph, commitment.before, plan.now, keeps_runs=True)
        fixed |= _without_split_groups(request.graph, keep or {})
        recurs = any("@*" in atom.path for atom in commitment.before.atoms)
        if recurs and fixed:
            raise PastChangedError("the recurrence has begun and keeps its rows")
        held = _atoms_there(commitment, request)
        context = plan.cluster.context(plan.grid, request.submitted_ms)
        rest = remainder_of(request, fixed, context, plan.now, held)
    except PastChangedError as error:
        return PlacementResult(Code.PAST_CHANGED, error.detail(request.graph.expression))
    except RdlError as error:
        return PlacementResult(Code(error.code), f"what is left cannot be planned: {error}")
    return Move(request, fixed, rest, plan.cluster.max_period_ms, commitment)


def _without_split_groups(graph: WorkGraph, keep: Mapping[str, FixedAtom]) -> dict[str, FixedAtom]:
    """Return the parts to keep, without members of a `together` if other members must move."""
    members = {
        _OCCURRENCE.sub("@", graph.paths[vertex]): len(parts)
        for vertex in graph.atoms.tolist()
        if len(parts := parts_of(graph, vertex)) > 1
    }
    if not members:
        return dict(keep)
    there = Counter(path.rpartition(".")[0] for path in keep)
    return {
        path: one
        for path, one in keep.items()
        for group in (path.rpartition(".")[0],)
        if there[group] >= members.get(_OCCURRENCE.sub("@", group), 1)
    }


def _atoms_there(commitment: Commitment, request: Request) -> frozenset[str]:
    """Return the atoms held, and those of occurrences of which no atom is held."""
    held = {path for _, path, _ in commitment.occurrences()}
    known = {occurrence_of(path) for path in held}
    graph = request.graph
    lost = {
        path
        for vertex in graph.atoms.tolist()
        for path, _ in parts_of(graph, vertex)
        if "@" in path and occurrence_of(path) not in known
    }
    return frozenset(held | lost)


def occurrence_of(path: str) -> str:
    """Return the path of the outermost occurrence of an atom; its own path without one."""
    head, mark, tail = path.partition("@")
    return f"{head}@{tail.partition('.')[0]}" if mark else path


def broken_atoms(plan: Plan, commitment: Commitment, request: Request) -> frozenset[str]:
    """Return the atoms whose past breaks their leases, so that their work cannot be completed."""
    found: set[str] = set()
    numbers = numbers_of(request.graph)
    for atom, path, rows in commitment.occurrences():
        past, _ = split(rows, plan.now)
        if not len(past) or path not in numbers or "@" in path:
            continue
        try:
            FixedAtom.of(atom, past, numbers[path], plan.now)
        except PastChangedError:
            found.add(path)
    return frozenset(found)
