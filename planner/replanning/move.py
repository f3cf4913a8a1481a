"""A move: a commitment with some of it fixed and the rest to be placed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.agent import Agent, Limits
from planner.placement import Code, PlacementResult
from planner.plan.plan import Plan
from planner.renegotiation.fixed import FixedAtom, PastChangedError
from planner.renegotiation.remainder import Remainder, remainder_of
from planner.renegotiation.renegotiation import join_parts, verify
from planner.replanning.commitment import Commitment
from planner.request import Request
from planner.reservations.reservation import Holding
from planner.reservations.rows import split
from planner.view import PlanView
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
class Move:
    """A commitment with some of it fixed and the rest to be placed.

    Attributes
    ----------
    fixed
        What stays, by atom path.
    remainder
        The rest as a request; None inside when nothing is left.
    """

    commitment: Commitment
    request: Request
    fixed: Mapping[str, FixedAtom]
    remainder: Remainder
    max_period_ms: int

    def holding(self) -> Holding:
        """Return what is fixed, as something held."""
        atoms = tuple(one.held.part(path, one.rows) for path, one in self.fixed.items())
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
        together = join_parts(self.request, dict(self.fixed), self.remainder, placed)
        return verify(self.request, together, self.max_period_ms)


def move_of(
    plan: Plan, commitment: Commitment, keep: Mapping[str, FixedAtom] | None = None
) -> Move | PlacementResult:
    """Return a commitment ready to be placed again, or why it cannot be.

    Parameters
    ----------
    keep
        Besides what has begun: parts that stay as they are (`FixedAtom.whole`) or are cut down
        (with `left`), by atom path.
    """
    request = commitment.request
    if request is None:
        return PlacementResult(Code.UNSATISFIABLE, commitment.why)
    try:
        fixed = _part_begun(plan, commitment, request) | dict(keep or {})
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
    return Move(commitment, request, fixed, rest, plan.cluster.max_period_ms)


def _atoms_there(commitment: Commitment, request: Request) -> frozenset[str]:
    """Return the atoms held, and those of occurrences of which none is."""
    held = {path for _, path, _ in commitment.occurrences()}
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


def _part_begun(plan: Plan, commitment: Commitment, request: Request) -> dict[str, FixedAtom]:
    """Return what has begun; an occurrence that has keeps all of its rows."""
    found: dict[str, FixedAtom] = {}
    numbers = _numbers(request.graph)
    for atom, path, rows in commitment.occurrences():
        past, _ = split(rows, plan.now)
        if not len(past):
            continue
        if "@" in path:
            found[path] = FixedAtom.whole(atom, rows)
        elif path in numbers:
            found[path] = FixedAtom.of(atom, past, numbers[path], plan.now)
        else:
            raise PastChangedError("has begun and is no longer asked for", path)
    return found


def broken_atoms(plan: Plan, commitment: Commitment, request: Request) -> frozenset[str]:
    """Return the atoms whose past is none of their leases, so that no rest of their work fits."""
    found: set[str] = set()
    numbers = _numbers(request.graph)
    for atom, path, rows in commitment.occurrences():
        past, _ = split(rows, plan.now)
        if not len(past) or path not in numbers or "@" in path:
            continue
        try:
            FixedAtom.of(atom, past, numbers[path], plan.now)
        except PastChangedError:
            found.add(path)
    return frozenset(found)


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
