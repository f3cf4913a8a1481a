"""Ejection search on machines: put one slot somewhere, and what it puts out somewhere else.

What is put out the least often goes first (guided ejection search, Nagata and Braysy 2009): a slot
that found no place is worth more each time, so that the search does not run in a circle.
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

#: Most slots that are put out for one.
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
    """Machines, and the slots that stand on them.

    Attributes
    ----------
    free
        int32[machine, resource, column]: what is left.
    slots
        int64[n, `COLUMNS`]: columns [start, end), kind, bundles, machine (-1 nowhere), whether it
        may be put elsewhere, label, how often it found no place, the next on its machine.
    first
        int64[machine]: a slot on each machine, or -1.
    amounts
        int64[kind, resource]: what one bundle takes.
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
    """Take what a slot needs from a machine, or give it back (-1)."""
    one = board.slots[slot]
    for r in range(board.amounts.shape[1]):
        amount = board.amounts[one[KIND], r] * one[BUNDLES] * sign
        if amount != 0:
            row = board.free[machine, r]
            for column in range(one[START], one[STOP]):
                row[column] = np.int32(row[column] - amount)


@kernel
def take(board: Board, slot: int, machine: int) -> None:
    """Put a slot on a machine."""
    _change(board, slot, machine, 1)
    board.slots[slot, MACHINE] = machine
    board.slots[slot, NEXT] = board.first[machine]
    board.first[machine] = slot


@kernel
def lift(board: Board, slot: int) -> None:
    """Take a slot from its machine."""
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
    """Put every slot on the machine that it names."""
    for slot in range(board.slots.shape[0]):
        if board.slots[slot, MACHINE] >= 0:
            take(board, slot, board.slots[slot, MACHINE])


@kernel
def _spare(board: Board, slot: int, machine: int) -> Int:
    """Return the least that a slot would leave on a machine, below 0 if it does not fit."""
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
    """Return the machine with the least room that a slot fits on, or -1."""
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
def _near(board: Board, slot: int, machine: int, found: I64) -> Int:
    """Write the slots that may go and stand where `slot` would; return how many."""
    start, stop = board.slots[slot, START], board.slots[slot, STOP]
    count = 0
    other = board.first[machine]
    while other >= 0 and count < found.shape[0]:
        one = board.slots[other]
        if one[MOVABLE] == 1 and one[START] < stop and start < one[STOP]:
            found[count] = other
            count += 1
        other = one[NEXT]
    return count


@kernel
def _size(board: Board, slot: int) -> Int:
    one = board.slots[slot]
    total = np.int64(0)
    for r in range(board.amounts.shape[1]):
        total = max(total, board.amounts[one[KIND], r])
    return total * one[BUNDLES] * (one[STOP] - one[START])


@kernel
def _set_for(board: Board, slot: int, machine: int, near: I64, out: I64) -> tuple[Int, Int]:
    """Return (penalty, number) of the slots to put out of a machine, in `out`; number 0 is none.

    One is enough where one is; else the least penalty first until there is room, without those
    that are then needless.
    """
    count = _near(board, slot, machine, near)
    best, least, size = np.int64(-1), np.int64(2**62), np.int64(2**62)
    for i in range(count):
        penalty = board.slots[near[i], PENALTY]
        if penalty > least:
            continue
        _change(board, near[i], machine, -1)
        if _spare(board, slot, machine) >= 0:
            area = _size(board, near[i])
            if penalty < least or area < size:
                best, least, size = near[i], penalty, area
        _change(board, near[i], machine, 1)
    if best >= 0:
        out[0] = best
        return least, np.int64(1)
    return _greedy_set(board, slot, machine, near[:count], out)


@kernel
def _greedy_set(board: Board, slot: int, machine: int, near: I64, out: I64) -> tuple[Int, Int]:
    key = np.empty(near.shape[0], dtype=np.int64)
    for i in range(near.shape[0]):
        key[i] = board.slots[near[i], PENALTY]
    gone = 0
    fits = False
    for i in np.argsort(key, kind="mergesort"):
        if gone == _MOST:
            break
        _change(board, near[i], machine, -1)
        out[gone] = near[i]
        gone += 1
        if _spare(board, slot, machine) >= 0:
            fits = True
            break
    for i in range(gone):
        _change(board, out[i], machine, 1)
    if not fits:
        return np.int64(0), np.int64(0)
    return _needed(board, slot, machine, out, gone)


@kernel
def _needed(board: Board, slot: int, machine: int, out: I64, gone: int) -> tuple[Int, Int]:
    """Keep in `out` those without which a slot does not fit."""
    for i in range(gone):
        _change(board, out[i], machine, -1)
    kept, penalty = 0, np.int64(0)
    for i in range(gone):
        one = out[i]
        _change(board, one, machine, 1)
        if _spare(board, slot, machine) < 0:
            _change(board, one, machine, -1)
            out[kept] = one
            kept += 1
            penalty += board.slots[one, PENALTY]
    for i in range(kept):
        _change(board, out[i], machine, 1)
    return penalty, np.int64(kept)


@kernel
def _ejection(
    board: Board, slot: int, allowed: Flags, begin: int, looks: int, out: I64
) -> tuple[Int, Int]:
    """Return (machine, number) of the cheapest slots to put out for a slot, in `out`."""
    machines = board.first.shape[0]
    near = np.empty(64, dtype=np.int64)
    trial = np.empty(_MOST, dtype=np.int64)
    found, count, least = np.int64(-1), np.int64(0), np.int64(2**62)
    for i in range(min(looks, machines)):
        machine = (begin + i) % machines
        if not allowed[machine]:
            continue
        penalty, number = _set_for(board, slot, machine, near, trial)
        if number > 0 and penalty < least:
            found, count, least = np.int64(machine), number, penalty
            out[:number] = trial[:number]
            if penalty == 1:
                break
    return found, count


@kernel
def insert(
    board: Board, new: int, own: Flags, begin: int, looks: int, budget: int
) -> tuple[Flags, Int]:
    """Put slot `new` on a machine; what is in its way goes elsewhere.

    Parameters
    ----------
    own
        bool[machine]: where `new` may stand.
    begin, looks
        The machine to look at first, and how many after it.
    budget
        Most slots put out.

    Returns
    -------
    bool[slots]: which may stand elsewhere than before, and how many were put out. The slot has no
    machine, and all others stand as before, where there is none.
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
    """Put all slots where they stood."""
    for slot in range(touched.shape[0]):
        if touched[slot] and board.slots[slot, MACHINE] >= 0:
            lift(board, slot)
    for slot in range(touched.shape[0]):
        if touched[slot] and before[slot] >= 0:
            take(board, slot, before[slot])
