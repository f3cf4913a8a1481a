"""Check the slots of one atom against its allocation and rules: sums, names, labels, rules."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from planner.validation.document import PLACED, Held, HeldAtom, HeldSlots, PlanViolation
from planner.validation.machines import NOWHERE, NamedMachines

#: States in which machines under a promise were lost: slots may lack theirs, and some of their sum.
SHORT = ("degraded", "failed")

#: States in which every slot needs its machine; later it may have left the cluster for good.
IN_FORCE = ("accepted", "active")

#: (first step, end step, bundles)
Span = tuple[int, int, int]


def slot_violations(held: Sequence[Held], machines: NamedMachines) -> list[PlanViolation]:
    """Return where slots are not those of the rows alongside them, or lie where they must not."""
    found: list[PlanViolation] = []
    for entry in held:
        for i, atom in enumerate(entry.atoms):
            where = f"{entry.where}/atoms/{i}/slots"
            if atom.slots is not None:
                found += _machine_violations(entry, atom, atom.slots, where, machines)
                found += _spread_violations(entry, atom, atom.slots, where, machines)
                found += _within_violations(entry, [(i, atom)], machines)
            if entry.promise == PLACED:
                wrong = _sum_violations(entry, atom, where)
                found += wrong or _stay_violations(entry, atom, where, machines)
        members: dict[str, list[tuple[int, HeldAtom]]] = {}
        for i, atom in enumerate(entry.atoms):
            if atom.rule.shared:
                members.setdefault(atom.path.rpartition(".")[0], []).append((i, atom))
        for several in members.values():
            found += _within_violations(entry, several, machines)
    return found


def _machine_violations(
    entry: Held, atom: HeldAtom, slots: HeldSlots, where: str, machines: NamedMachines
) -> Iterator[PlanViolation]:
    """Yield slots without a machine, on one that is not there, or on one they may not lie on."""
    must_have = entry.promise == PLACED and entry.state in IN_FORCE
    numbers = machines.numbers_of(atom).tolist()
    ends = slots.rows[:, 1].tolist()
    for k, (name, number) in enumerate(zip(slots.machines, numbers, strict=True)):
        if number == NOWHERE and ends[k] <= machines.now:
            continue
        rule, detail = "machine", ""
        if name is None:
            detail = "is placed, but has no machine" if must_have else ""
        elif number == NOWHERE:
            detail = f"{name!r} is no machine of the cluster"
        elif atom.label is not None and atom.label not in machines.group_of(number).labels:
            rule, detail = "label", f"{name} does not carry the label {atom.label!r}"
        elif atom.rule.domain is not None and _domain(machines, number, atom.rule.domain) is None:
            rule, detail = "spread", f"{name} is in no {atom.rule.domain}"
        if detail:
            yield PlanViolation(f"{where}/{k}", rule, detail, entry.id)


def _sum_violations(entry: Held, atom: HeldAtom, where: str) -> list[PlanViolation]:
    """Compare slots with rows at each step, and report the first step at which they differ."""
    short = entry.state in SHORT
    if atom.slots is None:
        if short or not len(atom.rows):
            return []
        return [PlanViolation(where, "slots", "is placed, but has no slots", entry.id)]
    mine, wanted = height_changes(atom.slots.rows.tolist()), height_changes(atom.rows.tolist())
    held = limit = 0
    for step in sorted({*mine, *wanted}):
        held, limit = held + mine.get(step, 0), limit + wanted.get(step, 0)
        if held > limit or (held < limit and not short):
            detail = f"slots hold {held} bundles at step {step}, where the allocation is {limit}"
            return [PlanViolation(where, "slots", detail, entry.id, step, held, limit)]
    return []


def _spread_violations(
    entry: Held, atom: HeldAtom, slots: HeldSlots, where: str, machines: NamedMachines
) -> Iterator[PlanViolation]:
    """Yield each machine, or value of a domain, that holds more bundles at the same time than the
    spread."""
    spread, domain = atom.rule.spread, atom.rule.domain
    if not spread:
        return
    places: dict[str, list[list[int]]] = {}
    for row, number in zip(slots.rows.tolist(), machines.numbers_of(atom).tolist(), strict=True):
        if number == NOWHERE:
            continue
        value = None if domain is None else _domain(machines, number, domain)
        if domain is None:
            places.setdefault(machines.name_of(number), []).append(row)
        elif value is not None:
            places.setdefault(f"{domain} {value}", []).append(row)
    for place in sorted(places):
        most, at = _peak(height_changes(places[place]))
        if most > spread:
            detail = f"{most} bundles on {place} at step {at}, where the spread is {spread}"
            yield PlanViolation(where, "spread", detail, entry.id, at, most, spread)


def _within_violations(
    entry: Held, atoms: Sequence[tuple[int, HeldAtom]], machines: NamedMachines
) -> Iterator[PlanViolation]:
    """Yield the first slot, of those not over, that is in one value too many.

    Parameters
    ----------
    atoms
        The atoms that must be in one value: an atom, or those of a `together`, each with its
        number.
    """
    domain = atoms[0][1].rule.within
    if domain is None:
        return
    first: dict[str, str] = {}
    for where, number in _placed_slots(entry, atoms, machines):
        name, value = machines.name_of(number), _domain(machines, number, domain)
        detail = ""
        if value is None:
            detail = f"{name} is in no {domain}"
        elif value not in first and len(first) == atoms[0][1].rule.values:
            others = ", ".join(f"{machine} in {other}" for other, machine in first.items())
            detail = f"{name} is in {domain} {value}, and {others}"
        if detail:
            yield PlanViolation(where, "within", detail, entry.id)
            return
        first.setdefault(str(value), name)


def _placed_slots(
    entry: Held, atoms: Sequence[tuple[int, HeldAtom]], machines: NamedMachines
) -> Iterator[tuple[str, int]]:
    """Yield where each slot is that is not over, and its machine."""
    for i, atom in atoms:
        if atom.slots is None:
            continue
        numbers = machines.numbers_of(atom).tolist()
        for k, (row, number) in enumerate(zip(atom.slots.rows.tolist(), numbers, strict=True)):
            if number != NOWHERE and row[1] > machines.now:
                yield f"{entry.where}/atoms/{i}/slots/{k}", number


def _domain(machines: NamedMachines, number: int, domain: str) -> str | None:
    return dict(machines.group_of(number).domains).get(domain)


def _peak(changes: Mapping[int, int]) -> tuple[int, int]:
    """Return the greatest sum and the first step that has it."""
    heights: list[tuple[int, int]] = []
    height = 0
    for step, _ in pairwise(sorted(changes)):
        height += changes[step]
        heights.append((height, -step))
    most, at = max(heights, default=(0, 0))
    return most, -at


# An atom's slots on one machine are interpreted as stays: the bundle acquired first is released
# first. No other interpretation makes the shortest stay longer; adjacent slots on one machine are
# one stay.


class Stay(NamedTuple):
    """Bundles on one machine from acquisition to release."""

    start: int
    end: int
    bundles: int
    machine: int


class _StayReader:
    """The stays of one atom, and those cut short: by a release, or by the loss of their machine.

    A release is only recorded as totals: at a step where the released amount rises, stays may end
    early; and if the promise falls at the same step, an earlier release may hide such a rise. At
    the end of a release stays may start late, in the same way.
    """

    def __init__(self, entry: Held, atom: HeldAtom, machines: NamedMachines) -> None:
        self.machines = machines
        assert atom.slots is not None
        by_machine: dict[int, list[list[int]]] = {}
        numbers = machines.numbers_of(atom).tolist()
        for row, number in zip(atom.slots.rows.tolist(), numbers, strict=True):
            by_machine.setdefault(number, []).append(row)
        self.stays = [
            Stay(*span, number)
            for number in sorted(by_machine)
            for span in first_in_first_out(by_machine[number])
        ]
        self._released, self._promised = _changes_of(entry, atom)
        #: Steps at which the machine of a stay was lost: its bundles continued elsewhere.
        self.lost = {stay.end for stay in self.stays if self.lost_machine(stay)}

    def lost_machine(self, stay: Stay) -> bool:
        """Return whether a stay ends because its machine goes down, or is on a removed machine."""
        return stay.machine == NOWHERE or self.machines.is_away(stay.machine, stay.end)

    def begins_whole(self, stay: Stay) -> bool:
        """Return whether a stay starts with the acquisition of its bundles."""
        at = stay.start
        late = max(0, self._promised.get(at, 0)) - self._released.get(at, 0)
        return at not in self.lost and min(late, self._given_back(at - 1)) <= 0

    def ends_whole(self, stay: Stay) -> bool:
        """Return whether a stay ends regularly, not cut short."""
        at = stay.end
        early = max(0, -self._promised.get(at, 0)) + self._released.get(at, 0)
        return not self.lost_machine(stay) and min(early, self._given_back(at)) <= 0

    def _given_back(self, step: int) -> int:
        """Return the number of bundles released at a step."""
        return sum(change for at, change in self._released.items() if at <= step)

    @property
    def has_cuts(self) -> bool:
        """Whether any bundles were released, or lost with their machine."""
        return bool(self._released or self.lost)


def _stay_violations(
    entry: Held, atom: HeldAtom, where: str, machines: NamedMachines
) -> list[PlanViolation]:
    """Return where a bundle of a placed atom leaves its machine too early, or for another one.

    Slots must add up to the rows. Only whole promises are checked: cancelled, degraded or failed
    ones may be cut anywhere.
    """
    if atom.slots is None or not entry.is_whole:
        return []
    reader = _StayReader(entry, atom, machines)
    if atom.rule.handover:
        return _short_stays(reader, entry, atom, where)
    if reader.has_cuts:
        found = _short_stays(reader, entry, atom, where)
        return found or _handovers(reader, entry, where)
    return _other_than_rows(reader, entry, atom, where)


def _short_stays(
    reader: _StayReader, entry: Held, atom: HeldAtom, where: str
) -> list[PlanViolation]:
    """Report the first bundle that stays less than a lease and was not cut."""
    for stay in reader.stays:
        kept = stay.end - stay.start
        if kept < atom.lease and reader.begins_whole(stay) and reader.ends_whole(stay):
            detail = (
                f"{_name(reader, stay)} has {stay.bundles} bundles over steps "
                f"[{stay.start}, {stay.end}), less than the lease of {atom.lease} steps"
            )
            return [PlanViolation(where, "lease", detail, entry.id, stay.start, kept, atom.lease)]
    return []


def _handovers(reader: _StayReader, entry: Held, where: str) -> list[PlanViolation]:
    """Report the first step at which a bundle leaves its machine and another one starts elsewhere.

    With first in, first out no bundle is acquired at a step of a release.
    """
    begins = {stay.start: stay for stay in reader.stays if reader.begins_whole(stay)}
    for stay in sorted(reader.stays, key=lambda one: one.end):
        if stay.end in begins and reader.ends_whole(stay):
            other = begins[stay.end]
            detail = (
                f"a bundle leaves {_name(reader, stay)} at step {stay.end} and one begins on "
                f"{_name(reader, other)}, but the atom allows no handover"
            )
            return [PlanViolation(where, "lease", detail, entry.id, stay.end)]
    return []


def _other_than_rows(
    reader: _StayReader, entry: Held, atom: HeldAtom, where: str
) -> list[PlanViolation]:
    """Compare the stays on all machines with those of the rows."""
    mine = _counts((stay.start, stay.end, stay.bundles) for stay in reader.stays)
    wanted = _counts(first_in_first_out(atom.rows.tolist()))
    for span in sorted(mine.keys() | wanted.keys()):
        held, asked = mine.get(span, 0), wanted.get(span, 0)
        if held != asked:
            detail = (
                f"{held} bundles keep one machine over steps [{span[0]}, {span[1]}), where {asked} "
                "of the allocation last so long, and the atom allows no handover"
            )
            return [PlanViolation(where, "lease", detail, entry.id, span[0], held, asked)]
    return []


def first_in_first_out(rows: Iterable[Sequence[int]]) -> list[Span]:
    """Return spans of bundles, first in first out, of rows that may overlap.

    In the order of release; the run time does not depend on heights.
    """
    changes = height_changes(rows)
    taken: deque[list[int]] = deque()
    spans: list[Span] = []
    for step in sorted(changes):
        change = changes[step]
        if change > 0:
            taken.append([step, change])
        while change < 0:
            gone = min(taken[0][1], -change)
            spans.append((taken[0][0], step, gone))
            change += gone
            taken[0][1] -= gone
            if not taken[0][1]:
                taken.popleft()
    return spans


def height_changes(rows: Iterable[Sequence[int]]) -> dict[int, int]:
    """Return the change of the total of rows (start, end, bundles) at each step."""
    changes: dict[int, int] = {}
    for start, end, bundles in rows:
        changes[start] = changes.get(start, 0) + bundles
        changes[end] = changes.get(end, 0) - bundles
    return changes


def _changes_of(entry: Held, atom: HeldAtom) -> tuple[dict[int, int], dict[int, int]]:
    """Return the changes of an atom's released bundles, and of its total promise."""
    source = _source(atom.path)
    same = [other for other in entry.atoms if _source(other.path) == source]
    released = [row for other in same for row in other.released.tolist()]
    held = [row for other in same for row in other.rows.tolist()]
    return height_changes(released), height_changes(held + released)


def _counts(spans: Iterable[Span]) -> dict[tuple[int, int], int]:
    counts: dict[tuple[int, int], int] = {}
    for start, end, bundles in spans:
        counts[start, end] = counts.get((start, end), 0) + bundles
    return counts


def _source(path: str) -> str:
    """Return an atom's path without occurrence numbers: releases are listed with the first."""
    return re.sub(r"@\d+", "@*", path)


def _name(reader: _StayReader, stay: Stay) -> str:
    return "no machine" if stay.machine == NOWHERE else reader.machines.name_of(stay.machine)
