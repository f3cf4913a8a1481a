"""Whether pieces can lie on a few machines, by trying every machine for every bundle.

Nothing here is clever: capacity is kept step by step, and only the instances are small (3 machines,
6 steps, 5 requests of a few bundles).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

#: Free amounts: [machine][resource][step].
Room = tuple[tuple[tuple[int, ...], ...], ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """`bundles` alike over steps [start, end), each of `amounts`, one number a resource.

    Attributes
    ----------
    machines
        Numbers of the machines they may lie on; None = all.
    atom, spread
        Of all pieces with this atom at most `spread` bundles lie on one machine at once; 0 = any.
    """

    start: int
    end: int
    bundles: int
    amounts: tuple[int, ...]
    machines: frozenset[int] | None = None
    atom: int = 0
    spread: int = 0


def pieces_of(
    rows: Sequence[Sequence[int]], amounts: tuple[int, ...], **rest: object
) -> list[Piece]:
    """Return one piece a bundle of rows (start, end, bundles): who was taken first goes first.

    `rest` are other fields of each piece.
    """
    heights = {t: bundles for start, end, bundles in rows for t in range(start, end)}
    taken: list[int] = []
    pieces: list[Piece] = []
    for step in range(min(heights, default=0), max(heights, default=0) + 2):
        while len(taken) > heights.get(step, 0):
            pieces.append(Piece(taken.pop(0), step, 1, amounts))
        taken += [step] * (heights.get(step, 0) - len(taken))
    return [replace(piece, **rest) for piece in pieces]  # type: ignore[arg-type]


def fits_on_machines(
    capacity: Sequence[Sequence[int]],
    pieces: Sequence[Piece | tuple[int, int, int, tuple[int, ...]]],
    away: Sequence[tuple[int, int, int]] = (),
) -> bool:
    """Return whether every bundle can have one machine for all its steps.

    Parameters
    ----------
    capacity
        [machine][resource].
    pieces
        As `Piece`, or its first four fields.
    away
        (machine, first step, first step past the last) in which a machine has nothing.
    """
    known = [piece if isinstance(piece, Piece) else Piece(*piece) for piece in pieces]
    known = [replace(piece, bundles=1) for piece in known for _ in range(piece.bundles)]
    steps = max((piece.end for piece in known), default=0)
    lost = {(machine, t) for machine, start, end in away for t in range(start, end)}
    room = tuple(
        tuple(tuple(0 if (m, t) in lost else amount for t in range(steps)) for amount in machine)
        for m, machine in enumerate(capacity)
    )
    known.sort(key=lambda one: (-max(one.amounts, default=0), one.start - one.end))
    return _lay(room, known, (), set())


def _lay(
    room: Room,
    pieces: Sequence[Piece],
    laid: tuple[tuple[Piece, int], ...],
    dead: set[tuple[int, Room, tuple[tuple[Piece, int], ...]]],
) -> bool:
    if not pieces:
        return True
    # What was laid matters by the capacity it left, and by spreads.
    spread = tuple(sorted((one for one in laid if one[0].spread), key=repr))
    key = len(pieces), room, spread
    if key in dead:
        return False
    piece, rest = pieces[0], pieces[1:]
    for machine in _machines_for(piece, room, laid):
        if _lay(_less(room, piece, machine), rest, (*laid, (piece, machine)), dead):
            return True
    dead.add(key)
    return False


def _machines_for(piece: Piece, room: Room, laid: Sequence[tuple[Piece, int]]) -> Iterator[int]:
    span = range(piece.start, piece.end)
    for machine, free in enumerate(room):
        allowed = piece.machines is None or machine in piece.machines
        fits = all(free[r][t] >= n for r, n in enumerate(piece.amounts) for t in span)
        beside = [
            one for one, other in laid if other == machine and one.atom == piece.atom and one.spread
        ]
        full = piece.spread and any(
            sum(one.start <= t < one.end for one in beside) >= piece.spread for t in span
        )
        if allowed and fits and not full:
            yield machine


def _less(room: Room, piece: Piece, machine: int) -> Room:
    free = tuple(
        tuple(
            amount - piece.amounts[r] if piece.start <= t < piece.end else amount
            for t, amount in enumerate(steps)
        )
        for r, steps in enumerate(room[machine])
    )
    return (*room[:machine], free, *room[machine + 1 :])
