"""Slots of one atom against what it holds and where it may lie: sums, names, labels, rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from planner.validation.document import Held, HeldAtom, PlanViolation
from planner.validation.machines.named_machines import NOWHERE, NamedMachines
from planner.validation.machines.stays import height_changes, stay_violations
from planner.validation.slot_document import PLACED, HeldSlots

#: States in which machines under a promise were lost: slots may lack theirs, and some of their sum.
SHORT = ("degraded", "failed")

#: States in which every slot needs its machine; later it may have left the cluster for good.
IN_FORCE = ("accepted", "active")


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
                found += wrong or stay_violations(entry, atom, where, machines)
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
    """Compare slots with rows step by step, and tell the first step at which they differ."""
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
    """Yield each machine, or value of a domain, that holds more bundles at once than the spread."""
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
        What is to be in one value: an atom, or those of a `together`; each with its number.
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
