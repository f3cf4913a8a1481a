"""From an agent's answer to a reservation's holding, and its cuts by time and by clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from planner.placement import PlacementResult, shifts_of
from planner.request import Request
from planner.reservations.reservation import NEVER, AtomAllocation, Holding, RequestDetails, Rows
from planner.reservations.rows import add_up, differences, split, subtract
from planner.reservations.slots import (
    ANYWHERE,
    NOWHERE,
    MachineRule,
    Slots,
    sort_slots,
    split_by_rows,
    split_slots,
)
from rdl.compound import Compound, Member, parts_of
from rdl.resources import Resources
from rdl.work_graph import (
    BUNDLE,
    EVERY,
    KIND,
    LABEL,
    LEASE,
    PARENT,
    SHIFT_COUNT,
    SPREAD,
    VALUES,
    WorkGraph,
    choices_of,
)

_ONCE = (0,)

#: The rule of a gang that asks nothing else: its bundles stay where they are.
_STAYS = MachineRule(handover=False)


def details_of(
    request: Request, result: PlacementResult, kept: RequestDetails | None = None
) -> RequestDetails:
    """Return expression, choices by path, and notes.

    Parameters
    ----------
    kept
        Of a reservation that is moved and was not asked for again: its notes, and how its request
        was written, stay.
    """
    graph = request.graph
    choices = tuple(choices_of(graph, result.vertices.tolist()).items())
    return RequestDetails(
        graph.expression,
        choices,
        graph.notes if kept is None else kept.notes,
        written=request.written if kept is None else kept.written,
    )


def holding_of(request: Request, result: PlacementResult) -> Holding:
    """Return the holding of a placed request."""
    graph = request.graph
    if len(graph.vertices) == 1 and len(result.rows) and not graph.endless:
        return _holding_of_lone(graph, result.rows)
    atoms = tuple(_atoms_of(graph, result))
    if graph.endless or not atoms:
        begin = min((int(atom.rows[0, 0]) for atom in atoms), default=graph.submitted)
        return Holding(atoms, begin, NEVER, graph.endless)
    begin = min(int(atom.rows[0, 0]) for atom in atoms)
    finish = max(int(atom.rows[-1, 1]) + max(atom.shifts) for atom in atoms)
    return Holding(atoms, begin, finish)


def _holding_of_lone(graph: WorkGraph, rows: Rows) -> Holding:
    """Return the holding of a request with a single atom: most requests, thousands in a batch."""
    bundle, name = graph.bundles[graph.vertices[0, BUNDLE]], None
    if isinstance(bundle, Compound):
        return Holding(tuple(_members_of(graph, 0, rows)), rows.item(0), rows.item(-2))
    if graph.labels and graph.vertices[0, LABEL] >= 0:
        name = graph.labels[graph.vertices[0, LABEL]]
    atom = AtomAllocation(graph.paths[0], bundle, name, rows, _ONCE, rule=rule_of(graph, 0))
    return Holding((atom,), rows.item(0), rows.item(-2))


def rule_of(graph: WorkGraph, vertex: int) -> MachineRule:
    """Return the machine rule of an atom's bundles."""
    spread, domain, handover, within, values = graph.vertices[vertex, SPREAD : VALUES + 1].tolist()
    if not spread and within < 0:
        return ANYWHERE if handover else _STAYS
    return MachineRule(
        spread,
        graph.domains[domain] if domain >= 0 else None,
        bool(handover),
        graph.domains[within] if within >= 0 else None,
        values=values,
    )


def rule_of_member(member: Member) -> MachineRule:
    """Return the machine rule of the bundles of an atom of the source."""
    if not member.spread and member.within is None:
        return ANYWHERE if member.handover else _STAYS
    place = member.within, member.is_shared, member.values
    return MachineRule(member.spread, member.domain, member.handover, *place)


def _atoms_of(graph: WorkGraph, result: PlacementResult) -> Iterator[AtomAllocation]:
    """Yield the atoms that hold something, in written order."""
    recurring = len(graph.vertices) > 1 and bool((graph.vertices[:, KIND] == EVERY).any())
    for vertex, rows in result.atoms():
        if not len(rows):
            continue
        bundle = graph.bundles[graph.vertices[vertex, BUNDLE]]
        if isinstance(bundle, Compound):
            yield from _members_of(graph, vertex, rows)
            continue
        label = graph.vertices[vertex, LABEL]
        name = graph.labels[label] if label >= 0 else None
        if recurring:
            path, inner = _pattern_of(graph, vertex)
            shifts = tuple(shifts_of(graph, vertex).tolist())
            rule = rule_of(graph, vertex)
            yield AtomAllocation(path, bundle, name, rows, shifts, None, inner, rule)
        else:
            rule = rule_of(graph, vertex)
            yield AtomAllocation(graph.paths[vertex], bundle, name, rows, _ONCE, rule=rule)


def _members_of(graph: WorkGraph, vertex: int, rows: Rows) -> Iterator[AtomAllocation]:
    """Yield the atoms of the vertex of a `together`, each with its own bundles."""
    whole, inner = _pattern_of(graph, vertex)
    shifts = tuple(shifts_of(graph, vertex).tolist())
    for index, (_, member) in enumerate(parts_of(graph, vertex)):
        path = f"{whole}.{index}" if whole else str(index)
        rule = rule_of_member(member)
        held = rows * np.array([1, 1, member.count])
        yield AtomAllocation(path, member.bundle, member.label, held, shifts, None, inner, rule)


def patterns_of(graph: WorkGraph) -> dict[str, tuple[int, ...]]:
    """Return the shifts of every atom by its path with ``@*``."""
    return {
        path: tuple(shifts_of(graph, vertex).tolist())
        for vertex in graph.atoms.tolist()
        for path in _held_paths(graph, vertex, _pattern_of(graph, vertex)[0])
    }


def _held_paths(graph: WorkGraph, vertex: int, path: str) -> list[str]:
    """Return the paths at which a holding has an atom of a graph: its own, or its members'."""
    if not isinstance(graph.bundles[graph.vertices[vertex, BUNDLE]], Compound):
        return [path]
    return [
        f"{path}.{index}" if path else str(index) for index in range(len(parts_of(graph, vertex)))
    ]


def leases_of(graph: WorkGraph) -> dict[str, int]:
    """Return the steps of a lease of every atom, by the path that a holding has it at."""
    recurring = bool((graph.vertices[:, KIND] == EVERY).any())
    return {
        path: int(graph.vertices[vertex, LEASE])
        for vertex in graph.atoms.tolist()
        for path in _held_paths(
            graph, vertex, _pattern_of(graph, vertex)[0] if recurring else graph.paths[vertex]
        )
    }


def _pattern_of(graph: WorkGraph, vertex: int) -> tuple[str, tuple[int, ...]]:
    """Return the path with ``@*`` for occurrence numbers, and the counts of inner `every`s."""
    path = graph.paths[vertex]
    counts: list[int] = []
    above = int(graph.vertices[vertex, PARENT])
    while above >= 0:
        row = graph.vertices[above]
        if row[KIND] == EVERY:
            head = f"{graph.paths[above]}.0@" if graph.paths[above] else "0@"
            path = f"{head}*{path[len(head) + 1 :]}"
            counts.append(int(row[SHIFT_COUNT]))
        above = int(row[PARENT])
    return path, tuple(counts[:-1])


def without_after(holding: Holding, step: int) -> Holding:
    """Return the rest if everything from `step` on is released.

    Occurrences become separate atoms, since the cut affects only some of them.
    """
    atoms: list[AtomAllocation] = []
    for atom in holding.atoms:
        occurrences = zip(atom.occurrences(), atom.occurrence_slots(), strict=True)
        for (path, rows), slots in occurrences:
            past, rest = split(rows, step)
            if len(past) or len(rest) or atom.released is not None:
                kept = None if slots is None else split_slots(slots, step)[0]
                # Only an atom that occurs once has given rows back before.
                known = rest[:0] if atom.released is None else atom.released
                gone = add_up(np.concatenate([known, rest])) if len(known) else rest
                alone = AtomAllocation(path, atom.bundle, atom.label, past, _ONCE, gone)
                atoms.append(replace(alone, rule=atom.rule, slots=kept))
    finish = max((int(atom.rows[-1, 1]) for atom in atoms if len(atom.rows)), default=step)
    return Holding(tuple(atoms), min(holding.begin, finish), finish)


def lost_rows(before: Holding, after: Holding) -> Rows:
    """Return int64[m, 3]: the excess of occurrences of `before` over those of `after`."""
    kept = {path: rows for atom in after.atoms for path, rows in atom.occurrences()}
    found = [np.empty((0, 3), dtype=np.int64)]
    for atom in before.atoms:
        for path, rows in atom.occurrences():
            more = subtract(rows, kept[path]) if path in kept and len(kept[path]) else rows
            found.append(more[more[:, 2] > 0])
    return np.concatenate(found)


def past_of(holding: Holding, step: int) -> dict[tuple[str, Resources], list[list[int]]]:
    """Return the rows before `step` of every occurrence, for comparing two holdings."""
    found: dict[tuple[str, Resources], list[list[int]]] = {}
    for atom in holding.atoms:
        for path, rows in atom.occurrences():
            past, _ = split(rows, step)
            if len(past):
                found[path, atom.bundle] = past.tolist()
    return found


def within(part: Holding, whole: Holding) -> bool:
    """Return whether `part` nowhere holds more than `whole`, occurrence by occurrence."""
    held = {path: rows for atom in whole.atoms for path, rows in atom.occurrences()}
    for atom in part.atoms:
        for path, rows in atom.occurrences():
            known = held.get(path)
            if known is None and len(rows):
                return False
            if known is not None and (differences(known, rows) < 0).any():
                return False
    return True


def first_step(holding: Holding) -> int | None:
    """Return the first step of any row held; None if nothing is."""
    rows = [a for a in holding.atoms if len(a.rows) and len(a.shifts)]
    return min((int(a.rows[0, 0]) + min(a.shifts) for a in rows), default=None)


def last_step(holding: Holding) -> int:
    """Return the first step past every row held, endless or not."""
    ends = (int(a.rows[-1, 1]) + max(a.shifts) for a in holding.atoms if len(a.rows))
    return max(ends, default=0)


def bundle_steps(atoms: Iterable[AtomAllocation]) -> int:
    """Return the work held, in bundle-steps over all occurrences."""
    total = 0
    for atom in atoms:
        rows = atom.rows
        total += int(((rows[:, 1] - rows[:, 0]) * rows[:, 2]).sum()) * len(atom.shifts)
    return total


def release_rows(
    holding: Holding, released: Sequence[tuple[str, Rows]], now: int
) -> tuple[Holding, Holding]:
    """Return the rest of a holding, and the released part as a separate holding.

    Parameters
    ----------
    released
        Rows by atom path, int64[m, 3]; within the atom's holding.
    now
        Start and end of an empty holding.
    """
    by_path = dict(released)
    kept: list[AtomAllocation] = []
    given: list[AtomAllocation] = []
    for atom in holding.atoms:
        less = by_path.get(atom.path)
        if less is None:
            kept.append(atom)
            continue
        before = less[:0] if atom.released is None else atom.released
        back, stays = (
            (None, None) if atom.slots is None else split_by_rows(atom.slots, add_up(less))
        )
        given.append(replace(atom, rows=less, released=None, slots=back))
        rows, gone = subtract(atom.rows, less), add_up(np.concatenate([before, less]))
        kept.append(replace(atom, rows=rows, released=gone, slots=stays))
    return _holding_within(kept, now), _holding_within(given, now)


def _holding_within(atoms: Sequence[AtomAllocation], now: int) -> Holding:
    """Return the holding of atoms; recurrences never come here with rows to release."""
    held = [atom for atom in atoms if len(atom.rows)]
    finish = max((int(atom.rows[-1, 1]) + max(atom.shifts) for atom in held), default=now)
    begin = min((int(atom.rows[0, 0]) + min(atom.shifts) for atom in held), default=finish)
    return Holding(tuple(atoms), begin, finish)


def extend_shifts(
    holding: Holding, shifts: Sequence[Sequence[int]], *, only_new: bool = False
) -> Holding:
    """Return a holding with other occurrences: all of `shifts`, or only those it lacks."""
    atoms = []
    for atom, wanted in zip(holding.atoms, shifts, strict=True):
        known = set(atom.shifts) if only_new else ()
        kept = tuple(shift for shift in wanted if shift not in known)
        slots = None if atom.slots is None else _extended_slots(atom, kept, only_new=only_new)
        atoms.append(replace(atom, shifts=kept, slots=slots))
    return Holding(tuple(atoms), holding.begin, holding.finish, holding.endless)


def _extended_slots(atom: AtomAllocation, shifts: Sequence[int], *, only_new: bool) -> Slots:
    """Return the slots of an atom with other occurrences; new ones have no machine yet."""
    assert atom.slots is not None
    new = tuple(shift for shift in shifts if shift not in atom.shifts)
    rows = replace(atom, shifts=new).all_rows() if new else atom.rows[:0]
    added = np.concatenate([rows, np.full((len(rows), 1), NOWHERE)], axis=1)
    return sort_slots(added if only_new else np.concatenate([atom.slots, added]))


def with_rules(holding: Holding, before: Holding) -> Holding:
    """Return a part of a holding with the machine rules of its atoms."""
    rules = {path: atom.rule for atom in before.atoms for path, _ in atom.occurrences()}
    atoms: list[AtomAllocation] = []
    for atom in holding.atoms:
        rule = next((rules[path] for path, _ in atom.occurrences() if path in rules), atom.rule)
        atoms.append(atom if rule is atom.rule else replace(atom, rule=rule))
    return replace(holding, atoms=tuple(atoms))


def with_slots(holding: Holding, slots: Sequence[Slots | None]) -> Holding:
    """Return a holding whose atoms have these slots, in their order."""
    # Written out: `dataclasses.replace` takes twice as long, and every admission comes by here.
    atoms = tuple(
        AtomAllocation(
            atom.path,
            atom.bundle,
            atom.label,
            atom.rows,
            atom.shifts,
            atom.released,
            atom.inner,
            atom.rule,
            mine,
        )
        for atom, mine in zip(holding.atoms, slots, strict=True)
    )
    return Holding(atoms, holding.begin, holding.finish, holding.endless)
