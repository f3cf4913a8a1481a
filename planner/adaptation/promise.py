"""A promise: one reservation as something that may be placed again, and what of it may not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from planner.agent import Agent, Limits
from planner.begun import Begun, PastChangedError
from planner.cluster import Cluster
from planner.holding import split, without_after
from planner.placement import Code, PlacementResult
from planner.plan import Plan
from planner.records import Holding
from planner.remainder import Remainder, remainder_of
from planner.renegotiation import joined, judged
from planner.request import Request
from planner.reservation import AtomAllocation, Rows
from planner.states import State
from planner.value import size_of
from planner.view import PlanView
from rdl.compile_context import CompileContext
from rdl.compiler import compile_source
from rdl.errors import RdlError
from rdl.work_graph import (
    ATOM,
    KIND,
    LEASE,
    MAX_HEIGHT,
    MIN_HEIGHT,
    MULTIPLE,
    WORK,
    WorkGraph,
)


@dataclass(frozen=True, slots=True)
class Promise:
    """One live reservation of a Plan.

    Attributes
    ----------
    number, id, tenant, queue, revision, state
        As the Plan has them.
    before
        What it holds.
    value
        What keeping it is worth: weight x size x preferences of the options taken.
    request
        The whole request, compiled on the Plan's grid; None where it no longer compiles.
    why
        Why it does not, empty where it does.
    choices
        Option taken by path of each `any`.
    started
        Whether any of it has begun.
    """

    number: int
    id: str
    tenant: str
    queue: str
    revision: int
    state: State
    before: Holding
    value: float
    request: Request | None
    why: str = ""
    choices: Mapping[str, int] = field(default_factory=dict)
    started: bool = False

    def occurrences(self) -> Iterator[tuple[AtomAllocation, str, Rows]]:
        """Yield (atom, path, rows) of every occurrence that holds something."""
        for atom in self.before.atoms:
            if len(atom.rows):
                for path, rows in atom.occurrences():
                    yield atom, path, rows

    def past(self, now: int) -> Holding:
        """Return what is left when nothing of the future is held."""
        return _unreleased(without_after(self.before, now))


def _unreleased(holding: Holding) -> Holding:
    """Return a holding whose cut-off rows are not given back by their owner, but lost."""
    atoms = tuple(
        AtomAllocation(one.path, one.bundle, one.label, one.rows)
        for one in holding.atoms
        if len(one.rows)
    )
    return Holding(atoms, holding.begin, holding.finish)


def promise_of(plan: Plan, number: int, cluster: Cluster | None = None) -> Promise:
    """Return reservation `number` of a Plan.

    Parameters
    ----------
    cluster
        Machines to compile for; by default the Plan's.
    """
    table = plan.table
    meta, details, before = table.meta[number], table.details.get(number), table.holding(number)
    tenant, queue = table.scope(number)
    weight, submitted = float(meta["weight"]), int(meta["submitted"])
    choices = dict(details.choices)
    request, why, value = None, "", weight
    try:
        graph = compile_source(details.text, context_for(plan, submitted, cluster))
        id_, priority = table.id_of(number), int(meta["priority"])
        request = Request(id_, tenant, queue, submitted, weight, priority, graph)
        value = weight * size_of(graph, plan.cluster.nominal) * _worth(graph, choices)
    except RdlError as error:
        why = str(error)
    started = any(
        int(atom.rows[0, 0]) + atom.shifts[0] < plan.now for atom in before.atoms if len(atom.rows)
    )
    return Promise(
        number,
        table.id_of(number),
        tenant,
        queue,
        int(meta["revision"]),
        table.state(number),
        before,
        value,
        request,
        why,
        choices,
        started,
    )


def context_for(plan: Plan, submitted_ms: int, cluster: Cluster | None = None) -> CompileContext:
    """Return what a request of a Plan is compiled against."""
    chosen = plan.cluster if cluster is None else cluster
    return CompileContext(plan.grid, submitted_ms, chosen.shapes(), chosen.max_period_ms)


def _worth(graph: WorkGraph, choices: Mapping[str, int]) -> float:
    """Return the product of the preferences of the options taken, by path."""
    worth = 1.0
    for vertex, path, option in graph.options:
        if choices.get(path) == option:
            worth *= float(graph.prefer[vertex])
    return worth


@dataclass(frozen=True, slots=True)
class Move:
    """A promise with some of it fixed and the rest to be placed.

    Attributes
    ----------
    fixed
        What stays, by atom path.
    remainder
        The rest as a request; None inside when nothing is left.
    """

    promise: Promise
    request: Request
    fixed: Mapping[str, Begun]
    remainder: Remainder
    max_period_ms: int

    def holding(self) -> Holding:
        """Return what is fixed, as something held."""
        atoms = tuple(
            AtomAllocation(path, one.bundle, one.label, one.rows)
            for path, one in self.fixed.items()
        )
        begin = min((one.first for one in self.fixed.values()), default=0)
        return Holding(atoms, begin, max((one.end for one in self.fixed.values()), default=begin))

    def place(self, view: PlanView, agent: Agent, limits: Limits | None = None) -> PlacementResult:
        """Return the whole new allocation, held against the oracle, or the refusal."""
        placed = PlacementResult()
        if self.remainder.request is not None:
            placed = agent.plan([self.remainder.request], view, limits or Limits())[0]
        return self.whole(placed)

    def whole(self, placed: PlacementResult) -> PlacementResult:
        """Return an allocation of the remainder as one of the whole request."""
        if not placed.placed:
            return placed
        together = joined(self.request, dict(self.fixed), self.remainder, placed)
        return judged(self.request, together, self.max_period_ms)


def move_of(
    plan: Plan, promise: Promise, keep: Mapping[str, Begun] | None = None
) -> Move | PlacementResult:
    """Return a promise ready to be placed again, or why it cannot be.

    Parameters
    ----------
    keep
        Besides what has begun: parts that stay as they are (`Begun.whole`) or are cut down (with
        `left`), by atom path.
    """
    request = promise.request
    if request is None:
        return PlacementResult(Code.UNSATISFIABLE, promise.why)
    try:
        fixed = _begun(plan, promise, request) | dict(keep or {})
        recurs = any("@*" in atom.path for atom in promise.before.atoms)
        if recurs and fixed:
            raise PastChangedError("the recurrence has begun and keeps its rows")
        held = _atoms_there(promise, request)
        context = context_for(plan, request.submitted_ms)
        rest = remainder_of(request, fixed, promise.choices, context, plan.now, held)
    except PastChangedError as error:
        return PlacementResult(Code.PAST_CHANGED, str(error))
    except RdlError as error:
        return PlacementResult(Code(error.code), f"what is left cannot be planned: {error}")
    return Move(promise, request, fixed, rest, plan.cluster.max_period_ms)


def _atoms_there(promise: Promise, request: Request) -> frozenset[str]:
    """Return the atoms held, and those of occurrences of which none is."""
    held = {path for _, path, _ in promise.occurrences()}
    known = {occurrence_of(path) for path in held}
    graph = request.graph
    lost = {
        path
        for path in (graph.paths[vertex] for vertex in graph.atoms.tolist())
        if "@" in path and occurrence_of(path) not in known
    }
    return frozenset(held | lost)


def occurrence_of(path: str) -> str:
    """Return the path of the outermost occurrence that an atom stands in; its own without one."""
    head, mark, tail = path.partition("@")
    return f"{head}@{tail.partition('.')[0]}" if mark else path


def _begun(plan: Plan, promise: Promise, request: Request) -> dict[str, Begun]:
    """Return what has begun; an occurrence that has keeps all of its rows."""
    found: dict[str, Begun] = {}
    numbers = _numbers(request.graph)
    for atom, path, rows in promise.occurrences():
        past, _ = split(rows, plan.now)
        if not len(past):
            continue
        if "@" in path:
            found[path] = Begun.whole(atom, rows)
        elif path in numbers:
            found[path] = Begun.of(atom, past, numbers[path], plan.now)
        else:
            raise PastChangedError(f"atom {path} has begun and is no longer asked for")
    return found


def _numbers(graph: WorkGraph) -> dict[str, tuple[int, int, int, int, int]]:
    """Return g, h, multiple, lease and work of every atom by path."""
    found: dict[str, tuple[int, int, int, int, int]] = {}
    for vertex, row in enumerate(graph.vertices):
        if row[KIND] == ATOM:
            g, h, k, lease, work = row[[MIN_HEIGHT, MAX_HEIGHT, MULTIPLE, LEASE, WORK]].tolist()
            found[graph.paths[vertex]] = (g, h, k, lease, work)
    return found


def numbers_of(request: Request) -> dict[str, tuple[int, int, int, int, int]]:
    """Return g, h, multiple, lease and work of every atom of a request, by path."""
    return _numbers(request.graph)
