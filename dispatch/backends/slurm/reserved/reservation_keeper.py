"""ReservationKeeper: keeps Slurm's reservations in line with the slots of the Plan.

Slurm's reservations are read, compared with the Plan, and the differences applied; there is no
state that another process could not read again. Only reservations whose name begins with the prefix
are changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dispatch.backends.slurm.control.commands import SlurmCommands, instant_word
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.records import NodeRights, SlurmReservation
from dispatch.backends.slurm.reserved.foreign_reservations import foreign_begin
from dispatch.backends.slurm.reserved.reservation_pieces import PlanPiece, word_of

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
