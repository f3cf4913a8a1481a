"""What one cycle of the dispatcher works with, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from dispatch.entitlements.directive import Directive
from dispatch.executions.assignment import Delta
from dispatch.executions.execution import Execution
from dispatch.machines.machine_pool import Vector


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle did; `ExecutionTable.assignment` says what runs where after it.

    Attributes
    ----------
    plan_version, table_version, at_ms
        Of the directive that it followed.
    deltas
        For the backend, in the order in which they are carried out.
    room
        What the entitlements leave of the machines that are up (R of step 3), in canonical amounts
        by resource.
    below
        Reservations of which a covered component has no machine.
    requeued
        Ids of the executions without cover whose cores were stopped.
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
    """What the steps of one cycle pass on to each other.

    Attributes
    ----------
    directive
        What the Plan says about the instant of the cycle.
    fresh
        Whether it is the first cycle over these executions and machines.
    retry
        Whether machines have changed, so that everything without a machine is tried again.
    changed
        Executions of which something may run, or may not, that did not, or did, before.
    requeued, lost_ms
        As of `Cycle`, so far.
    """

    directive: Directive
    fresh: bool
    retry: bool
    changed: set[Execution] = field(default_factory=set)
    requeued: list[str] = field(default_factory=list)
    lost_ms: int = 0
