"""What one cycle works with and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from dispatch.cycle.moves import Mover
from dispatch.entitlements.directive import Directive
from dispatch.executions.assignment import Delta
from dispatch.executions.execution import Execution
from dispatch.machines.machine_pool import Vector


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle did; `ExecutionTable.assignment` says what runs where after it.

    Attributes
    ----------
    deltas
        For the backend, in the order in which they are carried out.
    room
        What the entitlements leave of the machines that are up (R of step 2).
    below
        Reservations of which entitled demand found no machine.
    requeued
        Executions without cover whose cores were stopped.
    lost_ms
        Time their core components had run, summed over components.
    """

    plan_version: int
    table_version: int
    at_ms: int
    deltas: tuple[Delta, ...]
    room: Vector
    below: frozenset[str]
    requeued: tuple[str, ...]
    lost_ms: int


@dataclass(slots=True)
class CycleScratch:
    """The scratch of one cycle.

    Attributes
    ----------
    changed
        Executions of which something may run, or may not, that did not, or did, before.
    """

    directive: Directive
    mover: Mover
    changed: set[Execution] = field(default_factory=set)
    requeued: list[str] = field(default_factory=list)
    lost_ms: int = 0
