"""Working state and result of one cycle of the dispatcher."""

from __future__ import annotations

from dataclasses import dataclass, field

from dispatch.entitlements.directive import Directive
from dispatch.executions.assignment import Delta
from dispatch.executions.execution import Execution
from dispatch.machines.machine_pool import Vector


@dataclass(frozen=True, slots=True)
class Cycle:
    """Result of one cycle; `ExecutionTable.assignment` has the assignment after it.

    Attributes
    ----------
    plan_version, table_version, at_ms
        Versions and instant of its directive.
    deltas
        Deltas for the backend, in order of execution.
    room
        Capacity of the machines that are up minus the entitlements (R of step 3), in canonical
        amounts by resource.
    below
        Reservations with a covered component that has no machine.
    requeued
        Ids of the executions without cover whose core components were stopped.
    lost_ms
        Run time of their core components, summed.
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
    """State shared by the steps of one cycle.

    Attributes
    ----------
    directive
        Directive of the Plan for the cycle.
    fresh
        Whether it is the first cycle over these executions and machines.
    retry
        Whether machines have changed, so that all unplaced components are tried again.
    changed
        Executions whose number of allowed components has changed.
    requeued, lost_ms
        As in `Cycle`, so far.
    """

    directive: Directive
    fresh: bool
    retry: bool
    changed: set[Execution] = field(default_factory=set)
    requeued: list[str] = field(default_factory=list)
    lost_ms: int = 0
