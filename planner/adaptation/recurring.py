"""Repair recurring commitments one occurrence at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from planner.explain import time_text
from planner.placement import shifts_of
from planner.plan.plan import Plan
from planner.remainder import FixedAtom, Remainder
from planner.replanning.commitment import Commitment, Move, move_of, occurrence_of
from planner.replanning.draft_plan import DraftPlan
from planner.reservations.holding import rule_of_member, within
from planner.reservations.reservation import AtomAllocation, Holding, Rows
from planner.reservations.rows import split
from rdl.compound import Member, parts_of
from rdl.work_graph import START, WORK, WorkGraph, occurrence_path

#: Most lost runs that are listed by time.
_TOLD: Final = 5


def salvage(draft: DraftPlan, commitment: Commitment) -> Holding:
    """Return the remaining holding of an unplaced commitment; for a recurrence, the occurrences
    that fit.

    The holding has no slots; the draft has them.

    Occurrences are handled separately, so that one lost night does not cost the others. Each atom
    is restored as it was; an occurrence holds all of its atoms or none.
    """
    if not within(draft.held_by(commitment.number), commitment.before):
        draft.strip(commitment)  # completing its leases would need more than it held
    held = draft.held_by(commitment.number)
    held = replace(held, atoms=tuple(replace(atom, slots=None) for atom in held.atoms))
    groups: dict[str, list[AtomAllocation]] = {}
    known = {atom.path for atom in held.atoms}
    for atom, path, rows in commitment.occurrences():
        if "@" in path and path not in known:
            one = atom.part(path, rows)
            groups.setdefault(occurrence_of(path), []).append(one)
    for atoms in groups.values():
        more = Holding(held.atoms + tuple(atoms), held.begin, held.finish)
        if draft.hold_beside(commitment, atoms):
            held = more
    return _set_span(held, commitment)


def _set_span(held: Holding, commitment: Commitment) -> Holding:
    """Return a holding with its begin and finish set."""
    finish = max((int(atom.rows[-1, 1]) for atom in held.atoms), default=held.finish)
    return Holding(held.atoms, min(commitment.before.begin, finish), finish)


def regain(draft: DraftPlan, commitment: Commitment) -> Holding | None:
    """Return the holding of a degraded recurrence with occurrences that fit again, or None.

    Its past is broken, so it stays degraded; it still holds its future occurrences, and those that
    a later horizon adds. The offset is that of any occurrence it holds.
    """
    held = draft.held_by(commitment.number)
    there = {path for _, path, _ in commitment.occurrences()}
    groups: dict[str, list[AtomAllocation]] = {}
    for path, atom, rows in _pattern(commitment):
        if path not in there and int(rows[0, 0]) >= draft.plan.now:
            one = atom.part(path, rows)
            groups.setdefault(occurrence_of(path), []).append(one)
    more = held
    for atoms in groups.values():
        if draft.hold_beside(commitment, atoms):
            more = Holding(more.atoms + tuple(atoms), more.begin, more.finish)
    return None if more is held else _set_span(more, commitment)


def _pattern(commitment: Commitment) -> Iterator[tuple[str, AtomAllocation, Rows]]:
    """Yield (path, atom of any occurrence held, rows) of every occurrence with one offset."""
    request = commitment.request
    held = {path: (atom, rows) for atom, path, rows in commitment.occurrences()}
    if request is None:
        return
    graph = request.graph
    for vertex, index, member in _members(graph):
        shifts = shifts_of(graph, vertex).tolist()
        paths = [_path_of(graph, vertex, k, index) for k in range(len(shifts))]
        rows = {path: held[path][1] for path in paths if path in held}
        work = int(graph.vertices[vertex, WORK]) * member.count
        base = _first_whole(rows, paths, shifts, work)
        if base is None or "@" not in paths[0]:
            continue
        atom = held[next(iter(rows))][0]
        for path, shift in zip(paths, shifts, strict=True):
            yield path, atom, _shift_rows(base, shift)


def _members(graph: WorkGraph) -> Iterator[tuple[int, int, Member]]:
    """Yield (vertex, index of the member, member) of every atom of the source."""
    for vertex in graph.atoms.tolist():
        for index, (_, member) in enumerate(parts_of(graph, vertex)):
            yield vertex, index, member


def _path_of(graph: WorkGraph, vertex: int, k: int, index: int) -> str:
    """Return the path of occurrence `k` of a member of a vertex."""
    path = occurrence_path(graph, vertex, k)
    own = parts_of(graph, vertex)[index].path
    return path + own.removeprefix(graph.paths[vertex])


def holds_more(plan: Plan, commitment: Commitment) -> bool:
    """Return whether a recurrence still holds future occurrences."""
    return any(
        "@" in path and int(rows[-1, 1]) > plan.now for _, path, rows in commitment.occurrences()
    )


def runs_told(plan: Plan, commitment: Commitment) -> str:
    """Return a sentence on held and lost runs of a recurrence; empty unless it has both.

    A recurrence is one commitment of all its runs, so it fails if it loses a run permanently; the
    sentence tells its owner that the others ran.
    """
    if commitment.request is None:
        return ""
    graph = commitment.request.graph
    held = {occurrence_of(path) for _, path, _ in commitment.occurrences() if "@" in path}
    starts: dict[str, int] = {}
    for vertex in graph.atoms.tolist():
        for k, shift in enumerate(shifts_of(graph, vertex).tolist()):
            path = occurrence_path(graph, vertex, k)
            first = int(graph.vertices[vertex, START]) + shift
            if "@" in path:
                run = occurrence_of(path)
                starts[run] = min(starts.get(run, first), first)
    lost = sorted(start for run, start in starts.items() if run not in held)
    if not held or not lost:
        return ""
    times = ", ".join(time_text(start, plan.grid) for start in lost[:_TOLD])
    more = f" and {len(lost) - _TOLD} more" if len(lost) > _TOLD else ""
    which = "the one of the period" if len(lost) == 1 else "those of the periods"
    return (
        f"{len(held)} of {len(starts)} runs were held; {which} that began at {times}{more} found "
        "no machines"
    )


def ways_back(plan: Plan, commitment: Commitment) -> Iterator[Move]:
    """Yield the moves that fully restore a degraded commitment, the least disturbing first."""
    whole = refill(plan, commitment)
    if whole is not None:
        yield whole
    keep = {
        path: FixedAtom.whole(atom, rows)
        for atom, path, rows in commitment.occurrences()
        if "@" in path and int(rows[0, 0]) >= plan.now
    }
    for kept in (keep, {}) if keep else ({},):
        move = move_of(plan, commitment, kept)
        if isinstance(move, Move):
            yield move


def refill(plan: Plan, commitment: Commitment) -> Move | None:
    """Return the move that restores all occurrences of a recurrence at one offset, or None.

    The offset is that of any occurrence it still holds completely. There is none if an occurrence
    that is missing, or incomplete, has started.
    """
    request = commitment.request
    held = {path: rows for _, path, rows in commitment.occurrences()}
    if request is None or not held:
        return None
    graph = request.graph
    fixed: dict[str, FixedAtom] = {}
    for vertex, index, member in _members(graph):
        shifts = shifts_of(graph, vertex).tolist()
        paths = [_path_of(graph, vertex, k, index) for k in range(len(shifts))]
        work = int(graph.vertices[vertex, WORK]) * member.count
        base = _first_whole(held, paths, shifts, work)
        if base is None or len(shifts) < 2:
            return None
        for path, shift in zip(paths, shifts, strict=True):
            past, there = split(_shift_rows(base, shift), plan.now)[0], held.get(path, base[:0])
            if not np.array_equal(past, split(there, plan.now)[0]):
                return None
        path = parts_of(graph, vertex)[index].path
        rule = rule_of_member(member)
        atom = AtomAllocation(path, member.bundle, member.label, base, rule=rule)
        fixed[path] = FixedAtom.whole(atom, base)
    return Move(request, fixed, Remainder(None, ()), plan.cluster.max_period_ms, commitment)


def _first_whole(
    held: Mapping[str, Rows], paths: Sequence[str], shifts: Sequence[int], work: int
) -> Rows | None:
    """Return the rows of the first complete occurrence, moved to shift 0; None without one."""
    for path, shift in zip(paths, shifts, strict=True):
        rows = held.get(path)
        if rows is not None and int(((rows[:, 1] - rows[:, 0]) * rows[:, 2]).sum()) == work:
            return _shift_rows(rows, -shift)
    return None


def _shift_rows(rows: Rows, shift: int) -> Rows:
    moved: Rows = rows + np.array([shift, shift, 0])
    return moved
