"""Whether promises are kept: how long each reservation is below its entitlement (Rayon, figure 17).

A reservation is below its entitlement while it has demand that fits in what the Plan holds for it
and does not run, or while it covers nothing and an application waits that it cannot cover: a
promise that passes unused is a broken one. That is the one definition: service and simulations
measure by it. `Cycle.below` is narrower: it names the reservations of which a covered component has
no machine.

Where bundles have machines, what fits is asked slot by slot. A slot is a right to a machine: it
waits while a component that has room in it has no machine; one that is starting has. `SlotAccount`
counts slots so kept and broken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dispatch.cycle.cover.coverage import cover_of
from dispatch.cycle.cover.slot_cover import Places
from dispatch.entitlements.directive import Directive
from dispatch.executions.execution import Execution
from dispatch.executions.table import ExecutionTable
from planner.plan.records.reservation_records import DEGRADED, MISSED, RENEGOTIATED
from planner.reservations.reservation import HistoryEntry


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What is below its entitlement at an instant.

    Attributes
    ----------
    reservations
        Their ids.
    slots
        (reservation, machine) of the slots whose work has no machine.
    unused
        Ids of those that cover nothing while an application waits that they cannot cover.
    """

    reservations: frozenset[str]
    slots: frozenset[tuple[str, str]]
    unused: frozenset[str] = frozenset()


def below_entitlement(directive: Directive, table: ExecutionTable) -> frozenset[str]:
    """Return the reservations that are below their entitlement."""
    return shortfall(directive, table).reservations


def shortfall(directive: Directive, table: ExecutionTable) -> Shortfall:
    """Return what is below its entitlement.

    Measured by what the Plan holds, without anticipation; components that are starting do not run
    yet.
    """
    found, unused = set[str](), set[str]()
    slots: set[tuple[str, str]] = set()
    for entitlement in directive.planned:
        name = entitlement.reservation
        fellows = table.of_reservation(name)
        if all(part.running >= part.wanted for one in fellows for part in one.parts):
            continue
        cover = cover_of(entitlement, fellows, table.pool)
        if not cover.counts and any(_waits_uncovered(one) for one in fellows):
            unused.add(name)
            slots.update((name, machine) for machine in cover.idle)
            continue
        slots.update((name, machine) for machine in _waiting_on(cover.places or {}))
        for execution, counts in cover.counts.items():
            pairs = zip(execution.parts, counts, strict=True)
            if any(part.running < count for part, count in pairs):
                found.add(name)
    return Shortfall(frozenset(found | unused), frozenset(slots), frozenset(unused))


def _waits_uncovered(execution: Execution) -> bool:
    """Return whether an execution has no machine and a core component that cannot be covered."""
    return not execution.holds and any(
        part.uncovered for part in execution.parts if part.component.core
    )


def _waiting_on(places: Places) -> set[str]:
    """Return the machines on which components have slots and stand neither there nor elsewhere."""
    return {
        machine
        for execution, machines in places.items()
        for part, here in zip(execution.parts, machines, strict=True)
        for machine in part.shortage_by_machine(here)
    }


#: Share of its time, and least time in ms, for which work may lack its machines: less is a start.
_SHARE: Final = 10
_LEAST_MS: Final = 5_000

#: Words of a history that take something of a reservation away, and that make it whole again.
_TAKES: Final = frozenset({DEGRADED, MISSED})
_WHOLE: Final = frozenset({"restored", "moved", "optimized", RENEGOTIATED})


def tolerance_ms(length_ms: int) -> int:
    """Return for how long work may lack machines in a time of some length, before that counts."""
    return min(length_ms, max(_LEAST_MS, length_ms // _SHARE))


def was_short(
    history: Iterable[HistoryEntry], now_ms: int, length_ms: int = 0, below_ms: int = 0
) -> bool:
    """Return whether a reservation lacked machines while they were due.

    By the Plan: something was taken from it and not restored before that was due. What is restored
    in time was never missing. By what ran: its work lacked machines for longer than a start takes.

    Parameters
    ----------
    history
        What happened to it, in order.
    length_ms
        From its begin to its end.
    below_ms
        For how long it was below its entitlement.
    """
    due: int | None = None
    for entry in history:
        if entry.what in _TAKES and entry.lost is not None:
            due = entry.lost[0] if due is None else min(due, entry.lost[0])
        elif entry.what in _WHOLE and due is not None:
            if entry.at_ms > due:
                return True
            due = None
    if due is not None and now_ms >= due:
        return True
    return below_ms > tolerance_ms(length_ms)


@dataclass(slots=True)
class _Time:
    since_ms: int | None = None
    total_ms: int = 0
    longest_ms: int = 0


class PromiseBook:
    """Adds up, tick by tick, how long reservations were below their entitlements."""

    def __init__(self) -> None:
        self._times: dict[str, _Time] = {}

    def observe(self, directive: Directive, below: Iterable[str]) -> None:
        """Count reservations as below from the directive's instant on, until the next call."""
        now_ms = directive.at_ms
        for entitlement in directive.entitlements:
            self._times.setdefault(entitlement.reservation, _Time())
        falling = set(below)
        for reservation, time in self._times.items():
            if time.since_ms is not None and reservation not in falling:
                self._close(time, now_ms)
            elif time.since_ms is None and reservation in falling:
                time.since_ms = now_ms

    def end(self, now_ms: int) -> None:
        """Count what is still below up to the end of the observation."""
        for time in self._times.values():
            if time.since_ms is not None:
                self._close(time, now_ms)

    @staticmethod
    def _close(time: _Time, now_ms: int) -> None:
        assert time.since_ms is not None
        length = max(now_ms - time.since_ms, 0)
        time.total_ms += length
        time.longest_ms = max(time.longest_ms, length)
        time.since_ms = None

    def take_ended(self, directive: Directive) -> list[int]:
        """Forget the reservations whose entitlement has ended; return the ms each was below."""
        here = {entitlement.reservation for entitlement in directive.entitlements}
        ended = [
            name for name, time in self._times.items() if name not in here and time.since_ms is None
        ]
        return [self._times.pop(name).total_ms for name in ended]

    def longest_below_ms(self, reservation: str) -> int:
        """Return the longest time a reservation was below without a break."""
        time = self._times.get(reservation)
        return 0 if time is None else time.longest_ms

    def broken(self, tick_ms: int) -> frozenset[str]:
        """Return the reservations that were below for longer than `tick_ms` without a break."""
        return frozenset(n for n, one in self._times.items() if one.longest_ms > tick_ms)
