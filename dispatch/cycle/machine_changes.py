"""Machines that are lost, in outages or redefined, and the components displaced by it (step 1)."""

from __future__ import annotations

from collections.abc import Iterator

from dispatch.cycle.cycle import CycleScratch
from dispatch.cycle.dispatcher_state import DispatcherState
from dispatch.cycle.moves import Moves
from dispatch.cycle.placer import Placer
from dispatch.cycle.victims import clearing_of, victims_first
from dispatch.executions.execution import ComponentGroup, Execution, HeldComponent, PlacedComponent
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool


def move_to(table: ExecutionTable, pool: MachinePool, at_ms: int) -> None:
    """Switch to other machines.

    Components on removed machines are dropped; an execution that loses a core component is
    requeued. One that can never run any more is rejected, as if it were submitted now.
    """
    table.pool = pool
    for execution in [one for one in table if one.holds or not one.is_over]:
        execution.refit(pool)
        for part in execution.parts:
            for held in list(part.held):
                if pool.number_of(held.machine) is None:
                    table.drop(execution, part, held)
                    if part.component.core:
                        table.requeue(execution, at_ms, f"{held.machine} is gone")
        why = pool.why_never_all(execution.application)
        if why is not None:
            table.requeue(execution, at_ms, why)
            table.reject(execution, at_ms, why)


def stop_displaced(state: DispatcherState, scratch: CycleScratch, moves: Moves) -> None:
    """Stop components on lost machines, or that no longer fit on redefined machines.

    An execution that loses a core component is requeued.
    """
    table, machines, now_ms = state.table, state.machines, scratch.directive.at_ms

    def stop(victim: PlacedComponent, reason: str) -> None:
        execution, part, _ = victim
        moves.remove(*victim, reason)
        scratch.changed.add(execution)
        if part.component.core:
            table.requeue(execution, now_ms, reason)

    for name in sorted(machines.down - state.cleared):
        for victim in list(table.on_machine(name)):
            stop(victim, f"{name} is away")
    state.cleared = machines.down
    if scratch.fresh:
        for victim in list(_label_misfits(table, machines)):
            stop(victim, f"{victim[2].machine} no longer carries its labels")
        for victim in _overflow(table, state.placer, now_ms):
            stop(victim, f"{victim[2].machine} has become too small")


def _label_misfits(table: ExecutionTable, pool: MachinePool) -> Iterator[PlacedComponent]:
    """Yield components on machines that no longer carry their labels."""
    for execution in table:
        for part in execution.parts:
            allowed = pool.label_mask(part.component.labels)
            for held in list(part.held) if allowed is not None else ():
                number = pool.number_of(held.machine)
                if allowed is not None and number is not None and not allowed[number]:
                    yield execution, part, held


def _overflow(table: ExecutionTable, placer: Placer, now_ms: int) -> Iterator[PlacedComponent]:
    """Yield the fewest components that must leave machines that have become smaller.

    Best effort goes first, then the newest: cover is known only after step 2.
    """
    for machine, missing in placer.overfull():
        elastic: list[PlacedComponent] = []
        cores: dict[Execution, list[tuple[ComponentGroup, HeldComponent]]] = {}
        for execution, part, held in table.on_machine(machine):
            if part.component.core:
                cores.setdefault(execution, []).append((part, held))
            else:
                elastic.append((execution, part, held))
        elastic.sort(key=lambda victim: (_is_reserved(victim[0]), -victim[2].since_ms))
        ordered = victims_first(cores, now_ms, _is_reserved)
        leaving = clearing_of(machine, missing, elastic, ordered)
        if leaving is not None:
            yield from leaving.elastic
            for execution in leaving.cores:
                yield from ((execution, part, held) for part, held in cores[execution])


def _is_reserved(execution: Execution) -> bool:
    return execution.application.reservation is not None
