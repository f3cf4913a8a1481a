"""SlotNeeds: what slots need of their machines, now and soon, that does not stand there yet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dispatch.cycle.cover.slot_cover import Places
from dispatch.executions.execution import ComponentGroup
from dispatch.machines.machine_pool import MachinePool


class SlotNeeds:
    """Follows the slots of reservations, and says what room has to be kept on which machine.

    A component that runs elsewhere needs none: it is not moved while its room is not wanted.
    """

    def __init__(self, pool: MachinePool) -> None:
        self._pool = pool
        self._places: dict[str, tuple[Places, Places]] = {}
        self._fresh: set[str] = set()
        self._idle: dict[str, frozenset[str]] = {}

    def note(
        self, reservation: str, now: Places | None, soon: Places | None, idle: frozenset[str]
    ) -> None:
        """Follow the places of a reservation, now and when the grace of stops is over.

        `idle` are the machines on which its slots have room left now.
        """
        self._idle.pop(reservation, None)
        if idle:
            self._idle[reservation] = idle
        self._places.pop(reservation, None)
        if now or soon:
            self._places[reservation] = (now or {}, soon or {})
            self._fresh.add(reservation)

    def idle(self) -> list[int]:
        """Return the machines with slots that are not used now, and may be at any time."""
        names = set().union(*self._idle.values())
        return [number for name in names if (number := self._pool.number_of(name)) is not None]

    def reserve(self) -> dict[int, NDArray[np.int64]]:
        """Return the amounts to be kept free, by number of the machine.

        Only reservations that changed since the last call, or change soon, or needed something
        then, are looked at.
        """
        now: dict[int, NDArray[np.int64]] = {}
        soon: dict[int, NDArray[np.int64]] = {}
        looked, self._fresh = self._fresh, set()
        for reservation in sorted(looked):
            present, later = self._places.get(reservation, ({}, {}))
            needs = self._add(now, present) | self._add(soon, later)
            if later is not present:
                self._leave(soon, present, later)
            if needs or later is not present:
                self._fresh.add(reservation)
        kept = {number: np.maximum(amounts, 0) for number, amounts in now.items()}
        for number, amounts in soon.items():
            kept[number] = np.maximum(kept.get(number, np.zeros_like(amounts)), amounts)
        return {number: amounts for number, amounts in kept.items() if amounts.any()}

    def _add(self, into: dict[int, NDArray[np.int64]], places: Places) -> bool:
        """Add what is lacking; return whether anything is."""
        found = False
        for part, machines in _parts(places):
            for name, count in part.shortage_by_machine(machines).items():
                self._count(into, name, part, count)
                found = True
        return found

    def _leave(self, into: dict[int, NDArray[np.int64]], present: Places, later: Places) -> None:
        """Take off what is covered now and no more then: its room comes free by itself."""
        for execution, places in present.items():
            after = later.get(execution, ({},) * len(places))
            for part, here, then in zip(execution.parts, places, after, strict=True):
                standing = [held.machine for held in part.held]
                for name, count in here.items():
                    leaving = min(count, standing.count(name)) - then.get(name, 0)
                    if leaving > 0:
                        self._count(into, name, part, -leaving)

    def _count(
        self, into: dict[int, NDArray[np.int64]], name: str, part: ComponentGroup, count: int
    ) -> None:
        number = self._pool.number_of(name)
        if number is not None:
            here = into.setdefault(number, np.zeros(len(part.amounts), dtype=np.int64))
            here += count * np.array(part.amounts, dtype=np.int64)


def _parts(places: Places) -> Iterator[tuple[ComponentGroup, dict[str, int]]]:
    for execution, machines in places.items():
        yield from zip(execution.parts, machines, strict=True)
