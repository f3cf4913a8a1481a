"""ReservationKeeper: keeps Slurm's reservations in line with the slots of the Plan.

Slurm's reservations are read, compared with the Plan, and the differences applied; there is no
state that another process could not read again. Only reservations whose name begins with the prefix
are changed.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dispatch.backends.slurm.control.commands import SlurmCommands, instant_word
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.records import NodeRights, SlurmReservation
from dispatch.backends.slurm.reserved.foreign_reservations import foreign_begin
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from planner.reservations.slots import NOWHERE

logger = logging.getLogger("agenda.slurm")

#: Most changes of one pass, and most that Slurm refuses again; the rest follow in the next pass.
MOST_CHANGES: Final = 25


@dataclass(slots=True)
class _ReservationUpdate:
    """A reservation in Slurm, and the nodes and times that it should have."""

    there: SlurmReservation
    kept: set[str]
    start_s: int
    end_s: int
    changed: bool = False


class ReservationKeeper:
    """Creates, changes and deletes Slurm's reservations.

    Parameters
    ----------
    commands
        Commands of the Slurm.
    prefix, user
        Prefix of names, and the user who runs jobs in the reservations.

    Attributes
    ----------
    foreign
        Reservations of others as last read; None before the first read.
    """

    def __init__(self, commands: SlurmCommands, prefix: str, user: str) -> None:
        self._commands = commands
        self._prefix = prefix
        self._user = user
        self._there: list[SlurmReservation] = []
        self.foreign: tuple[SlurmReservation, ...] | None = None
        #: Changes that Slurm refused, with reasons, the oldest refusal first.
        self._said: dict[str, str] = {}
        #: Number of refused changes in this pass.
        self._refusals = 0
        self._sequence = 0

    def keep(self, pieces: Sequence[PlanPiece], now_s: int) -> bool:
        """Update Slurm to the Plan; return whether all changes were attempted.

        Changes refused before come last, so that they do not block others.

        Raises
        ------
        SlurmAwayError
            If Slurm does not answer; the next pass makes the remaining changes.
        """
        self._read()
        changes = self._refusals = 0
        known = {one.name for one in self._there} | {piece.reservation for piece in pieces}
        self._said = {what: why for what, why in self._said.items() if what in known}
        turns = {what: turn for turn, what in enumerate(self._said, start=1)}
        standing = self._standing(pieces, now_s)
        missing = self._missing(pieces, standing, now_s)
        for piece in sorted(missing, key=lambda one: turns.get(one.reservation, 0)):
            if changes >= MOST_CHANGES:
                return False
            changes += self._place(piece, standing, now_s)
        for one in sorted(standing, key=lambda one: turns.get(one.there.name, 0)):
            if changes >= MOST_CHANGES:
                return False
            changes += self._put_right(one, now_s)
        if changes:
            self._read()
        return True

    def rights_on(self, node: str, reservation: str | None, now_s: int, soon_s: int) -> NodeRights:
        """Return the reservations in which a job may run on a node, its own first.

        Parameters
        ----------
        reservation
            The Plan's reservation, or None for best effort, which runs in lent capacity.
        now_s, soon_s
            Unix times; reservations that begin by the second count as begun.
        """
        mine = self._stem(reservation) if reservation is not None else ""
        here = [one for one in self._there if node in one.nodes and one.end_s > now_s]

        def is_own(one: SlurmReservation) -> bool:
            return bool(mine) and one.name.startswith(mine) and one.start_s <= soon_s

        here.sort(key=lambda one: (not is_own(one), one.start_s))
        return NodeRights(
            tuple(one.name for one in here),
            own=any(map(is_own, here)),
            active=any(one.start_s <= soon_s for one in here),
            until_s=foreign_begin(self.foreign or (), node, now_s),
        )

    def of(self, reservation: str) -> list[SlurmReservation]:
        """Return the Slurm reservations of a reservation of the Plan, by start."""
        stem = self._stem(reservation)
        return sorted(
            (one for one in self._there if one.name.startswith(stem)), key=lambda one: one.start_s
        )

    def admit(self, one: SlurmReservation, user: str) -> None:
        """Let a user run jobs in a reservation."""
        if user not in one.users:
            self._commands.update_reservation(one.name, users=",".join([*one.users, user]))
            self._read()

    def _read(self) -> None:
        stem = f"{self._prefix}_"
        found = self._commands.reservations()
        self._there = [one for one in found if one.name.startswith(stem)]
        self.foreign = tuple(one for one in found if not one.name.startswith(stem))

    def _stem(self, reservation: str) -> str:
        return f"{self._prefix}_{word_of(reservation)}_"

    def _standing(self, pieces: Iterable[PlanPiece], now_s: int) -> list[_ReservationUpdate]:
        """Return Slurm's reservations, with the nodes that the Plan wants for the same times."""
        wanted: dict[tuple[str, int, int], set[str]] = {}
        for piece in pieces:
            key = (self._stem(piece.reservation), max(piece.start_s, now_s), piece.end_s)
            wanted.setdefault(key, set()).update(piece.nodes)
        found: list[_ReservationUpdate] = []
        for one in self._there:
            stem = one.name.rpartition("_")[0] + "_"
            nodes = wanted.get((stem, max(one.start_s, now_s), one.end_s), set())
            both = set(one.nodes) & nodes
            nodes -= both  # only one of two keeps a node
            found.append(_ReservationUpdate(one, both, one.start_s, one.end_s))
        return found

    def _missing(
        self, pieces: Iterable[PlanPiece], standing: Iterable[_ReservationUpdate], now_s: int
    ) -> list[PlanPiece]:
        """Return the parts of pieces that no reservation of Slurm has."""
        held: dict[tuple[str, int, int], set[str]] = {}
        for one in standing:
            stem = one.there.name.rpartition("_")[0] + "_"
            key = (stem, max(one.start_s, now_s), one.end_s)
            held.setdefault(key, set()).update(one.kept)
        found: list[PlanPiece] = []
        for piece in pieces:
            key = (self._stem(piece.reservation), max(piece.start_s, now_s), piece.end_s)
            rest = tuple(node for node in piece.nodes if node not in held.get(key, ()))
            if rest and piece.end_s > now_s + 1:
                found.append(PlanPiece(piece.start_s, piece.end_s, piece.reservation, rest))
        return found

    def _place(self, piece: PlanPiece, standing: Sequence[_ReservationUpdate], now_s: int) -> int:
        """Put a piece into an existing reservation or a new one; return the number of changes."""
        stem = self._stem(piece.reservation)
        own = [one for one in standing if one.there.name.startswith(stem)]
        start_s = max(piece.start_s, now_s)
        for one in own:
            if one.kept and (max(one.start_s, now_s), one.end_s) == (start_s, piece.end_s):
                one.kept.update(piece.nodes)
                one.changed = True
                return 0
        free = [one for one in own if not one.kept and not one.changed]
        free = [one for one in free if one.start_s > now_s or piece.start_s <= now_s]
        if free:
            best = max(free, key=lambda one: len(set(one.there.nodes) & set(piece.nodes)))
            best.kept, best.changed = set(piece.nodes), True
            best.end_s = piece.end_s
            if best.start_s > now_s:
                best.start_s = start_s
            return 0
        return self._try(
            piece.reservation,
            lambda: self._commands.create_reservation(
                self._new_name(stem), start_s, piece.end_s, piece.nodes, [self._user]
            ),
        )

    def _put_right(self, one: _ReservationUpdate, now_s: int) -> int:
        name = one.there.name
        if not one.kept:
            if one.there.end_s <= now_s:
                return 0  # Slurm deletes it
            return self._try(name, lambda: self._commands.delete_reservation(name))
        changes: dict[str, str] = {}
        if one.kept != set(one.there.nodes):
            changes["nodes"] = ",".join(sorted(one.kept))
        if one.start_s != one.there.start_s:
            changes["starttime"] = instant_word(one.start_s)
        if one.end_s != one.there.end_s:
            changes["endtime"] = instant_word(one.end_s)
        if not changes:
            return 0
        return self._try(name, lambda: self._commands.update_reservation(name, **changes))

    def _try(self, what: str, change: Callable[[], None]) -> int:
        """Make a change; return how many were made.

        A refused change is logged once, and retried at the next pass unless too many were refused.
        """
        if what in self._said and self._refusals >= MOST_CHANGES:
            return 0
        try:
            change()
        except SlurmAwayError:
            raise
        except SlurmError as error:
            if "in use" not in str(error) and self._said.get(what) != str(error):
                logger.warning("the reservation of %s is not as the Plan wants it: %s", what, error)
            self._said.pop(what, None)
            self._said[what] = str(error)
            self._refusals += 1
            return 0
        self._said.pop(what, None)
        return 1

    def _new_name(self, stem: str) -> str:
        taken = {one.name for one in self._there}
        while True:
            self._sequence += 1
            name = f"{stem}{self._sequence}"
            if name not in taken:
                return name


# A *run* is a machine that a reservation of the Plan has without a break; adjacent slots are
# merged. A *piece* is the runs of one reservation with the same start and end: one reservation in
# Slurm.


@dataclass(frozen=True, slots=True, order=True)
class PlanPiece:
    """Nodes of one reservation of the Plan, from one Unix time to another."""

    start_s: int
    end_s: int
    reservation: str
    nodes: tuple[str, ...]


def pieces_of(
    plan: Plan, now_ms: int, until_ms: int, origin_ms: int, nodes: Mapping[str, str]
) -> list[PlanPiece]:
    """Return the pieces that are active or begin between two instants, by start.

    Parameters
    ----------
    plan
        The Plan, which is only read; pooled reservations have no pieces.
    now_ms, until_ms
        From the Plan's origin.
    origin_ms
        The origin as Unix ms.
    nodes
        Slurm's name of each machine.
    """
    step_ms = plan.grid.step_ms
    step, last = now_ms // step_ms, until_ms // step_ms
    slots, owner = plan.table.slots_after(step)
    near = (slots[:, 0] <= last) & (slots[:, 3] != NOWHERE)
    slots, owner = slots[near], owner[near]
    order = np.lexsort((slots[:, 0], slots[:, 3], owner))
    found: dict[tuple[int, int, int], set[str]] = {}
    names = tuple(plan.table.machines)
    run: tuple[int, int, int, int] | None = None

    def close(one: tuple[int, int, int, int]) -> None:
        number, machine, start, end = one
        if names[machine] in nodes:
            found.setdefault((number, start, end), set()).add(nodes[names[machine]])

    for index in order.tolist():
        start, end, _, machine = slots[index].tolist()
        number = int(owner[index])
        if run is not None and run[:2] == (number, machine) and start <= run[3]:
            run = (number, machine, run[2], max(run[3], end))
            continue
        if run is not None:
            close(run)
        run = (number, machine, start, end)
    if run is not None:
        close(run)

    def unix_s(at: int) -> int:
        return (origin_ms + at * step_ms) // 1000

    pieces = [
        PlanPiece(unix_s(start), unix_s(end), plan.table.id_of(number), tuple(sorted(held)))
        for (number, start, end), held in found.items()
    ]
    return sorted(pieces)


def nodes_by_atom(
    plan: Plan, ids: Iterable[str], now_ms: int, nodes: Mapping[str, str]
) -> dict[str, dict[int, frozenset[str]]]:
    """Return the nodes that each atom of some reservations has from now on, by its index.

    Parameters
    ----------
    plan
        The Plan, which is only read.
    ids
        Reservations; others than those of the Plan are left out.
    now_ms
        From the Plan's origin.
    nodes
        Slurm's name of each machine.
    """
    table, step = plan.table, now_ms // plan.grid.step_ms
    numbers = [number for id_ in ids if (number := table.number_of(id_)) is not None]
    standing = table.standing_slots(np.array(numbers, dtype=np.int64))
    found: dict[str, dict[int, frozenset[str]]] = {}
    near = (standing.slots[:, 1] > step) & (standing.slots[:, 3] != NOWHERE)
    for index in np.flatnonzero(near).tolist():
        node = nodes.get(table.machines[int(standing.slots[index, 3])])
        atoms = found.setdefault(table.id_of(int(standing.number[index])), {})
        atom = int(standing.atom[index])
        atoms[atom] = atoms.get(atom, frozenset()) | ({node} if node else set())
    return found


def machineless_at(plan: Plan, now_ms: int, until_ms: int) -> frozenset[str]:
    """Return the pooled reservations with an allocation between two instants.

    Parameters
    ----------
    plan
        The Plan, which is only read.
    now_ms, until_ms
        From the Plan's origin.
    """
    step_ms, table = plan.grid.step_ms, plan.table
    pooled = table.numbers_of(PromiseLevel.POOLED)
    found = table.holding_between(pooled, now_ms // step_ms, until_ms // step_ms + 1)
    return frozenset(table.id_of(number) for number in found.tolist())


def word_of(reservation: str) -> str:
    """Return a reservation's id as a valid name in Slurm; different ids have different names."""
    plain = re.sub(r"[^A-Za-z0-9.-]", "-", reservation)[:64]
    if plain == reservation:
        return plain
    return f"{plain}.{hashlib.sha256(reservation.encode()).hexdigest()[:8]}"
