"""A move: a commitment with some of it fixed and the rest to be placed again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.placement import Code, PlacementResult
from planner.plan.plan import Plan
from planner.renegotiation.continuation import Continuation, fixed_of, numbers_of
from planner.renegotiation.fixed import FixedAtom, PastChangedError
from planner.renegotiation.remainder import remainder_of
from planner.replanning.commitment import Commitment
from planner.request import Request
from planner.reservations.rows import split
from rdl.errors import RdlError


@dataclass(frozen=True, slots=True)
class Move(Continuation):
    """A commitment with some of it fixed and the rest to be placed."""

    commitment: Commitment


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
        fixed = fixed_of(request.graph, commitment.before, plan.now, keeps_runs=True)
        fixed |= dict(keep or {})
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


def broken_atoms(plan: Plan, commitment: Commitment, request: Request) -> frozenset[str]:
    """Return the atoms whose past is none of their leases, so that no rest of their work fits."""
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
