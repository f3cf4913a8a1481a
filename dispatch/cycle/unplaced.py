"""Unplaced: executions that may run but have no machine, and their retries (step 6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dispatch.cycle.cover_book import CoverBook
from dispatch.cycle.cycle import CycleScratch
from dispatch.cycle.moves import Moves
from dispatch.cycle.placer import Placer
from dispatch.executions.execution import ComponentGroup, Execution
from dispatch.executions.states import ExecutionState
from dispatch.executions.table import ExecutionTable

_NO_ROOM = "the Plan or an earlier application needs its capacity"


class Unplaced:
    """Owns the list of executions that may run more components than are placed.

    Parameters
    ----------
    table, book
        The executions and their cover.
    """

    def __init__(self, table: ExecutionTable, book: CoverBook) -> None:
        self._table = table
        self._book = book
        self._waiting: list[Execution] = []
        self._paused = False

    @property
    def has_waiting(self) -> bool:
        """Whether any component that may run has no machine."""
        return bool(self._waiting)

    def faults(self, pending: Iterable[Execution]) -> Iterator[str]:
        """Yield executions that lack machines but are not listed, or the reverse.

        Parameters
        ----------
        pending
            Executions that have changed since the last cycle; they are left out.
        """
        left_out = set(pending)
        lacking = {one for one in self._table if not one.is_over and _missing_parts(one)}
        for execution in (lacking ^ set(self._waiting)) - left_out:
            yield f"{execution.id}: lacks machines and is not listed, or the other way round"

    def below(self) -> frozenset[str]:
        """Return the reservations with a covered component that has no machine."""
        if not self._book.counts:
            return frozenset()
        return frozenset(
            str(execution.application.reservation)
            for execution in self._waiting
            if any(len(part.held) < part.covered for part in execution.parts)
        )

    def shrink(self, scratch: CycleScratch, moves: Moves) -> None:
        """Stop components that may no longer run."""
        for execution in list(scratch.changed):
            moves.shrink(execution, _NO_ROOM)

    def place(self, scratch: CycleScratch, moves: Moves, placer: Placer) -> None:
        """Stop components that may no longer run, then place those that may."""
        self.shrink(scratch, moves)
        tried = scratch.changed.union(self._worth_retrying(scratch, placer))
        self._grow(tried, scratch, moves)
        tried, cleared = self._grow_others(tried, scratch, moves)
        if cleared:  # a cleared machine may fit others too: one more attempt
            self._grow([one for one in tried if _missing_parts(one)], scratch, moves)
            tried, _ = self._grow_others(tried, scratch, moves)
        self._keep(tried)

    def _grow_others(
        self, tried: set[Execution], scratch: CycleScratch, moves: Moves
    ) -> tuple[set[Execution], bool]:
        """Place executions that changed meanwhile or lost machines to others.

        Returns
        -------
        tried, cleared
            All executions tried so far, and whether any lost machines.
        """
        cleared = False
        while scratch.changed - tried or moves.again:
            cleared = cleared or bool(moves.again)
            more = (scratch.changed - tried) | moves.again
            moves.again = set()
            for execution in more:
                moves.shrink(execution, _NO_ROOM)
            tried = tried | more
            self._grow(more, scratch, moves)
        return tried, cleared

    def _keep(self, tried: set[Execution]) -> None:
        """List the unplaced executions, each with the reason."""
        kept = [execution for execution in self._waiting if execution not in tried]
        self._waiting = kept + [one for one in tried if not one.is_over and _missing_parts(one)]
        for execution in tried:
            self._table.note(execution)
            if execution.state is ExecutionState.QUEUED and _missing_parts(execution):
                execution.reason = _why_unplaced(execution)
        if self._paused or _have_paused(tried):
            self._paused = _have_paused(self._waiting)

    def _worth_retrying(self, scratch: CycleScratch, placer: Placer) -> Iterable[Execution]:
        """Return the unplaced executions that may find a machine now."""
        if scratch.retry or not self._waiting:
            placer.take_fitting(())
            return self._waiting
        if not (placer.has_freed or self._book.counts or self._paused):
            return ()
        missing = [(one, part) for one in self._waiting for part in _missing_parts(one)]
        fits = placer.take_fitting([part.amounts for _, part in missing])
        now_ms = scratch.directive.at_ms
        return {
            execution
            for (execution, part), fit in zip(missing, fits, strict=True)
            if fit or part.covered or 0 < part.paused_until_ms <= now_ms
        }

    def _grow(self, executions: Iterable[Execution], scratch: CycleScratch, moves: Moves) -> None:
        """Place the missing components of each execution, in placement order."""
        numbers = {one.reservation: one.number for one in scratch.directive.entitlements}
        entries = [
            (_place_order(execution, numbers), execution)
            for execution in executions
            if not execution.is_over
        ]
        for _, execution in sorted(entries, key=lambda entry: entry[0]):
            moves.grow(execution)
            cores = [part for part in execution.parts if part.component.core]
            placed = all(len(part.held) == part.component.count for part in cores)
            if placed and execution.state is ExecutionState.QUEUED:
                self._table.admit(execution, scratch.directive.at_ms)


def _missing_parts(execution: Execution) -> list[ComponentGroup]:
    """Return the component groups with components that may run but have no machine."""
    return [part for part in execution.parts if len(part.held) < part.covered + part.granted]


def _place_order(execution: Execution, numbers: dict[str, int]) -> tuple[int, int, tuple[int, int]]:
    """Return the placement order: covered executions by acceptance, then the others."""
    covered = any(part.covered for part in execution.parts)
    number = numbers.get(str(execution.application.reservation)) if covered else None
    return (1, 0, execution.order) if number is None else (0, number, execution.order)


def _have_paused(executions: Iterable[Execution]) -> bool:
    return any(part.paused_until_ms for one in executions for part in one.parts)


def _why_unplaced(execution: Execution) -> str:
    """Return why an execution that may run still waits."""
    part = _missing_parts(execution)[0]
    component = part.component
    if part.paused_until_ms:
        return execution.reason or f"{component.name!r} could not be started; it is tried again"
    labels = ", ".join(sorted(component.labels))
    machines = f"machine labelled {labels}" if labels else "machine"
    return f"no {machines} has capacity for {component.name!r}: {component.resources}"
