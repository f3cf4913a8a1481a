"""SlotAccount: how many slots were kept, how many were broken, and how many lost their machine.

What the ledger of promises adds up by reservation, slot by slot: a check of the dispatcher. A slot
is a right to a machine: it waits while a component that has capacity in it has no machine; one that
is starting has.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from dispatch.cycle.cover import cover_of
from dispatch.entitlements.directive import Directive
from dispatch.entitlements.slots import LOST
from dispatch.executions.execution import Execution
from dispatch.executions.table import ExecutionTable

#: Reservation, atom, machine and first step.
_Slot = tuple[str, str, str | None, int]


@dataclass(frozen=True, slots=True)
class SlotCounts:
    """Slots that are over, by the outcome of them.

    Attributes
    ----------
    kept
        Work that fitted in them had its machine by the next tick.
    broken
        It still waited then.
    lost
        Their machine was lost or away for a time, or they had none.
    """

    kept: int = 0
    broken: int = 0
    lost: int = 0


def waiting_slots(directive: Directive, table: ExecutionTable) -> set[tuple[str, str]]:
    """Return (reservation, machine) of the slots whose work has no machine."""
    found: set[tuple[str, str]] = set()
    for entitlement in directive.planned:
        fellows = table.of_reservation(entitlement.reservation)
        if all(part.running >= part.wanted for one in fellows for part in one.parts):
            continue
        cover = cover_of(entitlement, fellows, table.pool)
        if not cover.counts and any(_cannot_be_covered(one) for one in fellows):
            found.update((entitlement.reservation, machine) for machine in cover.idle)
        for execution, machines in cover.places.items():
            for part, here in zip(execution.parts, machines, strict=True):
                for machine in part.shortage_by_machine(here):
                    found.add((entitlement.reservation, machine))
    return found


def _cannot_be_covered(execution: Execution) -> bool:
    return not execution.holds and any(
        part.uncovered for part in execution.parts if part.component.core
    )


@dataclass(slots=True)
class _WatchedSlot:
    since_ms: int | None = None
    longest_ms: int = 0
    lost: bool = False


class SlotAccount:
    """Follows every slot from its first tick to its last.

    Parameters
    ----------
    tick_ms
        Work that waits for its slot at two instants so far apart, and in between, breaks it.
    """

    def __init__(self, tick_ms: int) -> None:
        self._tick_ms = tick_ms
        self._watched: dict[_Slot, _WatchedSlot] = {}
        self._counts = SlotCounts()
        self._broken: list[_Slot] = []

    @property
    def counts(self) -> SlotCounts:
        """The outcome of the slots that are over."""
        return self._counts

    @property
    def broken(self) -> tuple[_Slot, ...]:
        """The last hundred broken slots: reservation, atom, machine and first step."""
        return tuple(self._broken[-100:])

    def observe(
        self, directive: Directive, waiting: AbstractSet[tuple[str, str]], down: AbstractSet[str]
    ) -> None:
        """Count from the directive's instant on, until the next call.

        `waiting` are those of `waiting_slots`, `down` the machines that are lost or away.
        """
        now_ms, here = directive.at_ms, set[_Slot]()
        for entitlement in directive.planned:
            name = entitlement.reservation
            for share in entitlement.atoms:
                for slot in share.slots:
                    key = (name, share.path, slot.machine, slot.start)
                    here.add(key)
                    watch = self._watched.setdefault(key, _WatchedSlot())
                    watch.lost |= slot.machine == LOST or slot.machine in down
                    waits = (name, slot.machine) in waiting
                    _follow(watch, now_ms, waits=waits)
        for key in [key for key in self._watched if key not in here]:
            self._close(key)

    def end(self) -> None:
        """Count the slots that still hold as over."""
        for key in list(self._watched):
            self._close(key)

    def _close(self, key: _Slot) -> None:
        watch = self._watched.pop(key)
        kept, broken, lost = self._counts.kept, self._counts.broken, self._counts.lost
        if watch.lost:
            lost += 1
        elif watch.longest_ms >= self._tick_ms:
            broken += 1
            self._broken = [*self._broken[-99:], key]
        else:
            kept += 1
        self._counts = SlotCounts(kept, broken, lost)


def _follow(watch: _WatchedSlot, now_ms: int, *, waits: bool) -> None:
    if not waits:
        watch.since_ms = None
    elif watch.since_ms is None:
        watch.since_ms = now_ms
    else:
        watch.longest_ms = max(watch.longest_ms, now_ms - watch.since_ms)
