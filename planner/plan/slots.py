"""Whether slots that someone found may be given to a reservation.

The caller chooses the other machines of bundles. This module checks them against the cluster, the
atoms' rules and the bundles' previous slots; whether there is capacity is for `Draft.take_known`.
Bundles that keep their slots are not checked: their machine may have lost a label since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster
from planner.machines.room import MachineRoom
from planner.reservations.reservation import AtomAllocation, Holding, Rows, shared_runs
from planner.reservations.rows import add_up, subtract
from planner.reservations.slots import NOWHERE, MachineRule, Slots, pieces_of, slots_of, split_slots
from rdl.names import place_words
from rdl.resources import Resources

#: What a slot is of, its start, end and machine.
SlotKey: TypeAlias = tuple[Resources, int, int, int]

#: Bundles by slot.
SlotCounts: TypeAlias = Counter[SlotKey]

#: Steps of a lease of an atom.
LeaseOf: TypeAlias = Callable[[AtomAllocation], int]


def slot_counts(holding: Holding) -> SlotCounts:
    """Return how many bundles of a holding are in each slot."""
    counts: SlotCounts = Counter()
    for atom in holding.atoms:
        for start, end, bundles, machine in [] if atom.slots is None else atom.slots.tolist():
            counts[atom.bundle, start, end, machine] += bundles
    return counts


def lost_slots_of(before: Holding, after: Holding, room: MachineRoom, now: int) -> SlotCounts:
    """Return the slots of `before` that have no machine any more and that `after` has not.

    Parameters
    ----------
    room
        The remaining slots without `before`.
    now
        The present step; past slots are not lost.
    """
    lost: SlotCounts = Counter()
    for key, bundles in (slot_counts(before) - slot_counts(after)).items():
        bundle, start, end, machine = key
        if end > now:
            part = slots_of([max(start, now), end, bundles, machine])
            if machine != NOWHERE:
                room.take(part, bundle, -1)
            if machine == NOWHERE or not room.fits(part, bundle):
                lost[key] = bundles
            if machine != NOWHERE:
                room.take(part, bundle, 1)
    return lost


def gives_up(before: Holding, after: Holding, lost: SlotCounts, now: int) -> bool:
    """Return whether bundles of `after` have no machine from `now` on that had one to keep."""
    known = slot_counts(before)
    homeless = Counter({key: n for key, n in known.items() if key[3] == NOWHERE})
    nowhere = Counter({key: n for key, n in slot_counts(after).items() if key[3] == NOWHERE})
    return _steps(nowhere, now) > _steps(homeless | lost, now)


def _steps(counts: SlotCounts, now: int) -> int:
    return sum((end - max(start, now)) * n for (_, start, end, _), n in counts.items() if end > now)


class SlotJudge:
    """Judges slots on one cluster at one step."""

    def __init__(self, cluster: Cluster, now: int) -> None:
        self._groups, self._now = cluster.machines, now
        counts = [group.count for group in cluster.machines]
        self._group_of = np.repeat(np.arange(len(counts)), counts).tolist()

    def fault(
        self,
        before: Holding,
        after: Holding,
        lost: SlotCounts,
        lease_of: LeaseOf | None = None,
    ) -> str:
        """Return why `after` cannot have the slots it has, or an empty text.

        Atoms that are promised totals only are not judged.

        Parameters
        ----------
        lost
            :func:`lost_slots_of` both.
        lease_of
            Asked where bundles change machine at new times; None where what is kept of a promise
            may be cut anywhere.
        """
        for atom in after.atoms:
            if atom.slots is not None:
                found = self._sum_fault(atom, atom.slots)
                if found:
                    return f"{found} {_name(atom)}"
        old, new = _past_slots(before, self._now), _past_slots(after, self._now)
        for path, past in old.items():
            if path in new and not np.array_equal(past, new[path]):
                return f"what is past of {path or 'the request'} cannot change its machine"
        known = slot_counts(before)
        for atom in after.atoms:
            if atom.slots is not None:
                found = (
                    self._begun_fault(before, atom, atom.slots, lost)
                    or self._place_fault(atom, atom.slots, known)
                    or self._time_fault(before, atom, lost, lease_of)
                )
                if found:
                    return f"{found} {_name(atom)}"
        return self._shared_fault(after, known)

    def _shared_fault(self, after: Holding, known: SlotCounts) -> str:
        """Judge whether a `together` is in one value of a domain where it has new slots."""
        runs = shared_runs(after.atoms)
        held = [list(atom.occurrence_slots()) for atom in after.atoms] if runs else []
        for run in runs:
            later: list[Slots] = []
            is_new = False
            for place, number, _, _ in run:
                slots = held[place][number]
                if slots is not None:
                    mine, bundle = self._later(slots), after.atoms[place].bundle
                    later.append(mine)
                    is_new |= any(not _is_known(bundle, one, known) for one in mine.tolist())
            first = after.atoms[run[0].place]
            fault = self._within_fault(np.concatenate(later), first.rule) if is_new else ""
            if fault:
                return f"{fault} {_name(first)}"
        return ""

    def _later(self, slots: Slots) -> Slots:
        """Return the slots that are not over and have a machine."""
        later: Slots = slots[(slots[:, 1] > self._now) & (slots[:, 3] != NOWHERE)]
        return later

    def _within_fault(self, slots: Slots, rule: MachineRule) -> str:
        """Judge whether slots are in as few values of a domain as a rule says."""
        assert rule.within is not None
        values = {self._place(machine, rule.within) for machine in slots[:, 3].tolist()}
        if len(values) <= rule.values and None not in values:
            return ""
        return f"bundles are not all in {place_words(rule.within, rule.values)} of"

    def _sum_fault(self, atom: AtomAllocation, slots: Slots) -> str:
        machines = len(self._group_of)
        if bool(((slots[:, 3] < NOWHERE) | (slots[:, 3] >= machines)).any()):
            return f"a machine beyond the last of {machines} has a slot of"
        if not np.array_equal(add_up(slots[:, :3]), add_up(atom.all_rows())):
            return "the slots are not what is held by"
        return ""

    def _begun_fault(
        self, before: Holding, atom: AtomAllocation, slots: Slots, lost: SlotCounts
    ) -> str:
        """Judge whether bundles that have begun continue elsewhere while their machine is there."""
        old = [one.slots for one in before.atoms if one.path == atom.path]
        if not old or old[0] is None:
            return ""
        had, stands = self._bundles_across(old[0]), self._bundles_across(slots)
        begins = _by_machine(slots[slots[:, 0] == self._now])
        begins.subtract(_by_machine(old[0][old[0][:, 0] == self._now]))
        gone: Counter[int] = Counter()
        for (bundle, start, end, machine), bundles in lost.items():
            if bundle == atom.bundle and start < self._now < end:
                gone[machine] += bundles
        left = came = 0
        for place in {*had, *stands, *begins} - {NOWHERE}:
            here = stands[place] + max(0, begins[place])
            left += max(0, had[place] - gone[place] - here)
            came += max(0, here - had[place])
        if min(left, came):
            return "the machine is there, and bundles that have begun leave it, of"
        return ""

    def _bundles_across(self, slots: Slots) -> Counter[int]:
        """Return by machine the bundles that have begun and continue."""
        return _by_machine(slots[(slots[:, 0] < self._now) & (slots[:, 1] > self._now)])

    def _place_fault(self, atom: AtomAllocation, slots: Slots, known: SlotCounts) -> str:
        """Judge label, spread and `within` where an atom has slots that it had not."""
        later = self._later(slots)
        new = [slot for slot in later.tolist() if not _is_known(atom.bundle, slot, known)]
        if not new:
            return ""
        label, rule = atom.label, atom.rule
        places = {self._place(machine, rule.domain) for _, _, _, machine in new}
        if label is not None and any(
            label not in self._groups[self._group_of[machine]].labels for *_, machine in new
        ):
            return f"a machine without the label {label!r} has a slot of"
        if rule.within is not None:
            for mine in atom.occurrence_slots():
                assert mine is not None
                if fault := self._within_fault(self._later(mine), rule):
                    return fault
        if not rule.spread:
            return ""
        if None in places:
            return f"a machine that is in no {rule.domain} has a slot of"
        for place in places:
            beside = [one for one in later.tolist() if self._place(one[3], rule.domain) == place]
            if int(add_up(slots_of(beside)[:, :3])[:, 2].max()) > rule.spread:
                return f"more than {rule.spread} bundles stand together of"
        return ""

    def _place(self, machine: int, domain: str | None) -> int | str | None:
        """Return the value by which a spread counts a machine; None if it is in no domain."""
        if domain is None:
            return machine
        return dict(self._groups[self._group_of[machine]].domains).get(domain)

    def _time_fault(
        self,
        before: Holding,
        atom: AtomAllocation,
        lost: SlotCounts,
        lease_of: LeaseOf | None,
    ) -> str:
        """Judge where bundles change machine at times at which they did not before.

        Each occurrence is separate: no bundle continues from one to the next, even on the same
        machine.
        """
        if lease_of is None:
            return ""
        spans = _Spans(before, atom, lost, self._now)
        assert atom.slots is not None
        if all(spans.allow(*slot) for slot in atom.slots.tolist()):
            return ""
        stays = _stays_by_occurrence(atom)
        if all(spans.allow(*slot) for slot in stays):
            return ""
        if not atom.rule.handover:
            return "no handover is allowed, and bundles change machine, of"
        lease = lease_of(atom)
        least = min(end - start for start, end, _, _ in stays if not spans.had(start, end))
        if least < lease:
            return f"a bundle keeps a machine for {least} steps, less than a lease of {lease}, of"
        return ""


class _Spans:
    """The times over which one bundle of an atom may keep one machine without being handed over.

    Its previous slots, those of its rows, those that begin with started bundles, and the rest of
    started bundles on a lost machine, from the loss on. Everything else moves whole, or lease
    by lease.
    """

    def __init__(self, before: Holding, atom: AtomAllocation, lost: SlotCounts, now: int) -> None:
        self._now = now
        mine = [one for one in before.atoms if one.bundle == atom.bundle and one.slots is not None]
        # Not slot by slot: one that continues in another on its machine is a part of a stay, but
        # for one of another occurrence.
        old = [stay for one in mine for stay in _stays_by_occurrence(one)]
        self._known = {(start, end) for start, end, _, _ in old}
        self._begun = {(start, machine) for start, _, _, machine in old if start < now}
        for start, end in _pieces_of(atom):
            self._known.add((start, end))
            if not mine:  # promised totals only until now
                self._known.add((max(start, now), end))
        lost_stays = [
            stay
            for stay in old
            if stay[0] < now
            and any(
                bundle == atom.bundle and stay[0] <= start < stay[1] and machine == stay[3]
                for bundle, start, _, machine in lost
            )
        ]
        self._lost_ends = {end for _, end, _, _ in lost_stays}
        left = {(start, machine) for start, _, _, machine in lost_stays}
        new = _stays_by_occurrence(atom)
        #: Where bundles continue that lost their machine.
        self._cuts = {now} | {
            end for start, end, _, machine in new if machine == NOWHERE or (start, machine) in left
        }

    def allow(self, start: int, end: int, _bundles: int, machine: int) -> bool:
        """Return whether one bundle may be on a machine for the steps [start, end)."""
        return self.had(start, end) or (start, machine) in self._begun

    def had(self, start: int, end: int) -> bool:
        """Return whether it did so before, or its rows or a machine lost under it make it so."""
        return (
            end <= self._now
            or (start, end) in self._known
            or (end in self._lost_ends and start in self._cuts)
        )


def _pieces_of(atom: AtomAllocation) -> set[tuple[int, int]]:
    pieces = pieces_of(atom.rows).tolist() if len(atom.rows) else []
    return {(start + by, end + by) for start, end, _ in pieces for by in atom.shifts}


def stays_of(slots: Slots) -> list[list[int]]:
    """Return slots by machine; consecutive slots on one machine are one stay.

    Slots without a machine are not joined: each will be assigned to its own machine.
    """
    found: list[list[int]] = slots[slots[:, 3] == NOWHERE].tolist()
    for machine in np.unique(slots[slots[:, 3] != NOWHERE][:, 3]).tolist():
        rows: Rows = add_up(slots[slots[:, 3] == machine][:, :3])
        found += [[*piece, machine] for piece in pieces_of(rows).tolist()]
    return found


def _stays_by_occurrence(atom: AtomAllocation) -> list[list[int]]:
    """Return the stays of every occurrence that has slots."""
    mine = (slots for slots in atom.occurrence_slots() if slots is not None)
    return [stay for slots in mine for stay in stays_of(slots)]


def _by_machine(slots: Slots) -> Counter[int]:
    counts: Counter[int] = Counter()
    for _, _, bundles, machine in slots.tolist():
        counts[machine] += bundles
    return counts


def _is_known(bundle: Resources, slot: list[int], known: SlotCounts) -> bool:
    start, end, bundles, machine = slot
    return known[bundle, start, end, machine] >= bundles


def _past_slots(holding: Holding, now: int) -> dict[str, NDArray[np.int64]]:
    """Return the slots before `now` of every occurrence that has slots."""
    found: dict[str, Slots] = {}
    if holding.begin < now:
        for atom in holding.atoms:
            for (path, _), slots in zip(atom.occurrences(), atom.occurrence_slots(), strict=True):
                if slots is not None:
                    found[path] = split_slots(slots, now)[0]
    return found


def _name(atom: AtomAllocation) -> str:
    return atom.path or "the request"


# What is past stays. Started bundles continue on their machine for as long as possible; the oldest
# bundles end first.


class SlotsInForce(NamedTuple):
    """Slots that continue, and the step until which each has had its machine so far.

    Attributes
    ----------
    slots, owned
        int64[k, 4] and int64[k].
    """

    slots: Slots
    owned: NDArray[np.int64]


def slots_in_force(rows: Rows, old: Slots, now: int) -> tuple[SlotsInForce, NDArray[np.int64]]:
    """Return past and running slots on their machines, and the pieces to place."""
    pieces = pieces_of(rows)
    running = pieces[(pieces[:, 0] < now) & (pieces[:, 1] > now)]
    begun = old[(old[:, 0] < now) & (old[:, 1] > now)]
    past = old[old[:, 1] <= now]
    ended = pieces[(pieces[:, 0] < now) & (pieces[:, 1] <= now)]
    later = pieces[pieces[:, 0] >= now]
    goes_on, owned, over = _match(begun, running, now)
    kept = np.concatenate([past, goes_on, over])
    if len(ended) or len(running):
        held = add_up(kept[:, :3]) if len(kept) else rows[:0]
        wanted = add_up(pieces[pieces[:, 0] < now])
        missing = subtract(wanted, held) if len(held) else wanted
        if len(missing):  # of a reservation that had no machines before
            nowhere = np.full((len(missing), 1), NOWHERE, dtype=np.int64)
            kept = np.concatenate([kept, np.concatenate([missing, nowhere], axis=1)])
    ends = kept[:, 1].copy()
    ends[len(past) : len(past) + len(owned)] = owned
    return SlotsInForce(kept, ends), later


def _match(
    begun: Slots, running: NDArray[np.int64], now: int
) -> tuple[Slots, NDArray[np.int64], Slots]:
    """Give the ends of running pieces to begun slots, the oldest first.

    Returns
    -------
    goes_on, owned, over
        Continuing slots, their previous ends, and bundles whose new rows end at `now`.
    """
    ends: list[list[int]] = [[end, count] for _, end, count in running.tolist()]
    goes_on: list[list[int]] = []
    owned: list[int] = []
    over: list[list[int]] = []
    # Those that the rows no longer hold at `now` are the oldest.
    spare = int(begun[:, 2].sum()) - sum(count for _, count in ends)
    for start, end, bundles, machine in begun.tolist():
        left = bundles
        if spare > 0:
            part = min(spare, left)
            over.append([start, now, part, machine])
            spare, left = spare - part, left - part
        while left and ends:
            part = min(left, ends[0][1])
            goes_on.append([start, ends[0][0], part, machine])
            owned.append(end)
            left -= part
            ends[0][1] -= part
            if not ends[0][1]:
                ends.pop(0)
    return slots_of(goes_on), np.array(owned, dtype=np.int64), slots_of(over)


def handover_step(slot: NDArray[np.int64], until: int, lease: int, now: int) -> int | None:
    """Return where a begun slot leaves its machine by `until`, a lease on either side; or None.

    A lease of 0 allows no handover.
    """
    step = min(until, int(slot[1]) - lease)
    return step if lease and step > now and step - int(slot[0]) >= lease else None


def stays_until(room: MachineRoom, slot: NDArray[np.int64], bundle: Resources, now: int) -> int:
    """Return the step until which a slot can stay on its machine: its start, if it cannot be there.

    One that has begun stays as long as there is capacity, or else until `now`; any other stays
    whole or not at all.
    """
    start, end, bundles, machine = slot.tolist()
    if machine != NOWHERE and room.fits(slots_of([max(start, now), end, bundles, machine]), bundle):
        return int(end)
    if start >= now or machine == NOWHERE:
        return int(max(start, now)) if start < now else int(start)
    low, high = now, end
    while high - low > 1:
        middle = (low + high) // 2
        if room.fits(slots_of([now, middle, bundles, machine]), bundle):
            low = middle
        else:
            high = middle
    return int(low)


def known_slots(
    before: Holding, after: Holding, *, every: bool = False
) -> dict[str, tuple[Rows, Slots]]:
    """Return rows and slots of each occurrence of `before`.

    No rows, unless those of `every` one are requested, where `after` asks other machines for it:
    what has not begun cannot stay as it is.
    """
    asked = {path: _asked_of(atom) for atom in after.atoms for path, _ in atom.occurrences()}
    return {
        path: (rows if every or asked.get(path) == _asked_of(atom) else rows[:0], slots)
        for atom in before.atoms
        for (path, rows), slots in zip(atom.occurrences(), atom.occurrence_slots(), strict=True)
        if slots is not None
    }


def _asked_of(atom: AtomAllocation) -> tuple[Resources, str | None, MachineRule]:
    return atom.bundle, atom.label, atom.rule


def is_same(atom: AtomAllocation, known: dict[str, tuple[Rows, Slots]]) -> bool:
    """Return whether an atom has all of its allocation in every occurrence."""
    return all(
        path in known and equal_rows(rows, known[path][0]) for path, rows in atom.occurrences()
    )


def equal_rows(rows: Rows, others: Rows) -> bool:
    """Return whether two lists of rows are the same."""
    return rows.shape == others.shape and bool((rows == others).all())


def stay_or_move(before: Holding, after: Holding) -> list[tuple[Slots, Slots, Resources]]:
    """Return the slots of each atom of `after` that `before` has too, and the others.

    A slot that `before` has once stays once, whatever other atoms of the same bundle have.
    """
    known: Counter[tuple[Resources, tuple[int, ...]]] = Counter(
        (atom.bundle, tuple(slot))
        for atom in before.atoms
        if atom.slots is not None
        for slot in atom.slots.tolist()
    )
    found: list[tuple[Slots, Slots, Resources]] = []
    for atom in after.atoms:
        parts: tuple[list[list[int]], list[list[int]]] = ([], [])
        for slot in [] if atom.slots is None else atom.slots.tolist():
            key = (atom.bundle, tuple(slot))
            parts[0 if known[key] else 1].append(slot)
            known[key] -= known[key] > 0
        found.append((slots_of(parts[0]), slots_of(parts[1]), atom.bundle))
    return found


def occurrence_pieces(atom: AtomAllocation) -> NDArray[np.int64]:
    """Return the pieces of all occurrences of an atom; each occurrence ends on its own."""
    return np.concatenate(_pieces_by_occurrence(atom))


def joint_pieces(atom: AtomAllocation) -> list[NDArray[np.int64]]:
    """Return the pieces that machines are found for in one call: those of an occurrence each if
    all of its bundles are to be in one value of a domain, else all.
    """
    return [occurrence_pieces(atom)] if atom.rule.within is None else _pieces_by_occurrence(atom)


def _pieces_by_occurrence(atom: AtomAllocation) -> list[NDArray[np.int64]]:
    one = pieces_of(atom.rows)
    return [one + np.array([shift, shift, 0]) for shift in atom.shifts]
