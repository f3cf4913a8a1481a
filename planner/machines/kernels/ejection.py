"""Ejection search on machines: place one slot, and place the slots that it ejects elsewhere.

The slots ejected least often go first (guided ejection search, Nagata and Braysy 2009): a slot's
penalty grows each time it finds no place, so that the search does not cycle.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.kernel_cache import KernelFamily

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Int: TypeAlias = Any

kernel = KernelFamily(nogil=True, error_model="numpy").kernel

#: Maximum number of slots ejected for one.
_MOST: Final = 8

# Columns of `Board.slots`.
START: Final = 0
STOP: Final = 1
KIND: Final = 2
BUNDLES: Final = 3
MACHINE: Final = 4
MOVABLE: Final = 5
LABEL: Final = 6
PENALTY: Final = 7
NEXT: Final = 8
COLUMNS: Final = 9


class Board(NamedTuple):
    """Machines, and the slots on them.

    Attributes
    ----------
    free
        int32[machine, resource, column]: free capacity.
    slots
        int64[n, `COLUMNS`]: columns [start, end), kind, bundles, machine (-1 for none), whether it
        may move, label, penalty (how often it found no place), the next slot on its machine.
    first
        int64[machine]: first slot on each machine, or -1.
    amounts
        int64[kind, resource]: need of one bundle.
    allowed
        bool[label, machine].
    """

    free: I32
    slots: I64
    first: I64
    amounts: I64
    allowed: Flags


@kernel
def _change(board: Board, slot: int, machine: int, sign: int) -> None:
    """Subtract a slot's need from a machine, or release it (sign -1)."""
    one = board.slots[slot]
    for r in range(board.amounts.shape[1]):
        amount = board.amounts[one[KIND], r] * one[BUNDLES] * sign
        if amount != 0:
            row = board.free[machine, r]
            for column in range(one[START], one[STOP]):
                row[column] = np.int32(row[column] - amount)


@kernel
def take(board: Board, slot: int, machine: int) -> None:
    """Place a slot on a machine."""
    _change(board, slot, machine, 1)
    board.slots[slot, MACHINE] = machine
    board.slots[slot, NEXT] = board.first[machine]
    board.first[machine] = slot


@kernel
def lift(board: Board, slot: int) -> None:
    """Remove a slot from its machine."""
    machine = board.slots[slot, MACHINE]
    _change(board, slot, machine, -1)
    board.slots[slot, MACHINE] = -1
    after = board.slots[slot, NEXT]
    if board.first[machine] == slot:
        board.first[machine] = after
        return
    other = board.first[machine]
    while board.slots[other, NEXT] != slot:
        other = board.slots[other, NEXT]
    board.slots[other, NEXT] = after


@kernel
def take_all(board: Board) -> None:
    """Place every slot on its given machine."""
    for slot in range(board.slots.shape[0]):
        if board.slots[slot, MACHINE] >= 0:
            take(board, slot, board.slots[slot, MACHINE])


@kernel
def _spare(board: Board, slot: int, machine: int) -> Int:
    """Return the minimum capacity left by a slot on a machine, negative if it does not fit."""
    one = board.slots[slot]
    least = np.int64(2**62)
    for r in range(board.amounts.shape[1]):
        amount = board.amounts[one[KIND], r] * one[BUNDLES]
        if amount == 0:
            continue
        row = board.free[machine, r]
        for column in range(one[START], one[STOP]):
            left = np.int64(row[column]) - amount
            if left < 0:
                return left
            least = min(least, left)
    return least


@kernel
def _best_machine(board: Board, slot: int, allowed: Flags, begin: int, looks: int) -> Int:
    """Return the machine with the least free capacity that fits a slot, or -1."""
    machines = board.first.shape[0]
    best, least = np.int64(-1), np.int64(2**62)
    for i in range(min(looks, machines)):
        machine = (begin + i) % machines
        if allowed[machine]:
            spare = _spare(board, slot, machine)
            if 0 <= spare < least:
                best, least = np.int64(machine), spare
    return best


@kernel
def _short_at(board: Board, slot: int, machine: int, out: I64, gone: int) -> Int:
    """Return the first column at which a slot does not fit even without some others, or -1."""
    one = board.slots[slot]
    for r in range(board.amounts.shape[1]):
        amount = board.amounts[one[KIND], r] * one[BUNDLES]
        if amount == 0:
            continue
        row = board.free[machine, r]
        for column in range(one[START], one[STOP]):
            if row[column] < amount:
                left = np.int64(row[column]) - amount
                for i in range(gone):
                    other = board.slots[out[i]]
                    if other[START] <= column < other[STOP]:
                        left += board.amounts[other[KIND], r] * other[BUNDLES]
                if left < 0:
                    return np.int64(column)
    return np.int64(-1)


@kernel
def _size(board: Board, slot: int) -> Int:
    one = board.slots[slot]
    total = np.int64(0)
    for r in range(board.amounts.shape[1]):
        total = max(total, board.amounts[one[KIND], r])
    return total * one[BUNDLES] * (one[STOP] - one[START])


@kernel
def _set_for(board: Board, slot: int, machine: int, most: Int, out: I64) -> tuple[Int, Int]:
    """Return (penalty, number) of the slots to eject from a machine, in `out`; number 0 if none.

    Adds the cheapest slot at a column without capacity, one by one, then drops the needless ones.
    """
    gone, penalty = 0, np.int64(0)
    column = _short_at(board, slot, machine, out, gone)
    while column >= 0:
        best, least, size = np.int64(-1), np.int64(2**62), np.int64(2**62)
        other = board.first[machine]
        while other >= 0:
            one = board.slots[other]
            if one[MOVABLE] == 1 and one[START] <= column < one[STOP] and one[PENALTY] <= least:
                area = _size(board, other)
                if (one[PENALTY] < least or area < size) and not _stands_in(out, gone, other):
                    best, least, size = other, one[PENALTY], area
            other = one[NEXT]
        penalty += least
        if best < 0 or gone == _MOST or penalty >= most:
            return np.int64(0), np.int64(0)
        out[gone] = best
        gone += 1
        column = _short_at(board, slot, machine, out, gone)
    return _needed(board, slot, machine, out, gone)


@kernel
def _stands_in(out: I64, gone: int, slot: int) -> bool:
    for i in range(gone):
        if out[i] == slot:
            return True
    return False


@kernel
def _needed(board: Board, slot: int, machine: int, out: I64, gone: int) -> tuple[Int, Int]:
    """Keep in `out` only the slots whose ejection is necessary."""
    i = 0
    while i < gone and gone > 1:
        one = out[i]
        out[i] = out[gone - 1]
        if _short_at(board, slot, machine, out, gone - 1) < 0:
            gone -= 1
        else:
            out[gone - 1], out[i] = out[i], one
            i += 1
    penalty = np.int64(0)
    for i in range(gone):
        penalty += board.slots[out[i], PENALTY]
    return penalty, np.int64(gone)


@kernel
def _ejection(
    board: Board, slot: int, allowed: Flags, begin: int, looks: int, out: I64
) -> tuple[Int, Int]:
    """Return (machine, number) of the cheapest slots to eject for a slot, in `out`."""
    machines = board.first.shape[0]
    trial = np.empty(_MOST, dtype=np.int64)
    found, count, least = np.int64(-1), np.int64(0), np.int64(2**62)
    for i in range(min(looks, machines)):
        machine = (begin + i) % machines
        if not allowed[machine]:
            continue
        penalty, number = _set_for(board, slot, machine, least, trial)
        if number > 0 and penalty < least:
            found, count, least = np.int64(machine), number, penalty
            out[:number] = trial[:number]
            if penalty == 1:
                break  # no slot is cheaper than one that never moved
    return found, count


@kernel
def insert(
    board: Board, new: int, own: Flags, begin: int, looks: int, budget: int
) -> tuple[Flags, Int]:
    """Place slot `new` on a machine and move the slots that block it.

    Parameters
    ----------
    own
        bool[machine]: machines allowed for `new`.
    begin, looks
        The first machine to examine, and the number of machines.
    budget
        Maximum number of ejections.

    Returns
    -------
    bool[slots]: slots that may have moved, and the number of ejections. If there is no place, it is
    empty, and all other slots are on their previous machines.
    """
    count = board.slots.shape[0]
    touched = np.zeros(count, dtype=np.bool_)
    before = board.slots[:, MACHINE].copy()
    waiting = np.empty(count, dtype=np.int64)
    out = np.empty(_MOST, dtype=np.int64)
    waiting[0], left, ejected = new, 1, 0
    while left > 0:
        left -= 1
        slot = waiting[left]
        allowed = own if slot == new else board.allowed[board.slots[slot, LABEL]]
        touched[slot] = True
        machine = _best_machine(board, slot, allowed, begin, looks)
        if machine >= 0:
            take(board, slot, machine)
            continue
        board.slots[slot, PENALTY] += 1
        machine, number = _ejection(board, slot, allowed, begin + ejected * 7, looks, out)
        if number == 0 or ejected + number > budget:
            _put_back(board, before, touched)
            return touched[:0], np.int64(max(1, ejected))
        for i in range(number):
            lift(board, out[i])
            touched[out[i]] = True
            waiting[left] = out[i]
            left += 1
        ejected += number
        take(board, slot, machine)
    return touched, np.int64(ejected)


@kernel
def _put_back(board: Board, before: I64, touched: Flags) -> None:
    """Return all slots to their previous machines."""
    for slot in range(touched.shape[0]):
        if touched[slot] and board.slots[slot, MACHINE] >= 0:
            lift(board, slot)
    for slot in range(touched.shape[0]):
        if touched[slot] and before[slot] >= 0:
            take(board, slot, before[slot])
