"""DispatcherState: the state of a dispatcher between cycles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dispatch.cycle.cover.cover_book import CoverBook
from dispatch.cycle.growth import GrowthBook
from dispatch.cycle.options import DispatchOptions
from dispatch.cycle.placer import Placer
from dispatch.cycle.uncovered import Uncovered
from dispatch.cycle.unplaced import Unplaced
from dispatch.entitlements.directive import Directive
from dispatch.executions.execution import UNLIMITED, Execution
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool
from dispatch.machines.placement.policy import Policy


@dataclass(slots=True)
class DispatcherState:
    """State derived from one execution table and one set of machines.

    It is kept so that the cost of an arrival depends only on its changes. All of it can be derived
    again: with another table or other machines the dispatcher makes a new state.

    Attributes
    ----------
    table, machines
        The table and machines it was derived from.
    placer
        Free capacity of each machine, and the placement strategy.
    dispatch_table_version
        Version of the dispatch table that `placer` uses.
    book
        Cover by entitlements.
    uncovered
        Executions without cover, and which of them may run.
    unplaced
        Executions that may run but have no machine.
    growth
        Components beyond the requested counts.
    closed
        Machines that take no new components.
    cleared
        Machines that were down in the last cycle, where no component is left.
    """

    table: ExecutionTable
    machines: MachinePool
    placer: Placer
    dispatch_table_version: int
    book: CoverBook
    uncovered: Uncovered
    unplaced: Unplaced
    growth: GrowthBook
    closed: frozenset[str] = frozenset()
    cleared: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        table: ExecutionTable,
        machines: MachinePool,
        placer: Placer,
        directive: Directive,
        options: DispatchOptions,
    ) -> DispatcherState:
        """Return the state before a first cycle, without cover and grants."""
        for execution in table:
            for part in execution.parts:
                part.covered = part.granted = part.growth = 0
                part.allowed, part.quota = UNLIMITED, ""
        book = CoverBook(table, machines)
        uncovered = Uncovered(table, machines, book, options)
        return cls(
            table,
            machines,
            placer,
            directive.table_version,
            book,
            uncovered,
            Unplaced(table, book),
            GrowthBook(machines, options.growth, uncovered.quotas.leaves_alone),
        )

    def check(self, directive: Directive) -> list[str]:
        """Return differences between the stored and the derived state, in words; empty if correct.

        Parameters
        ----------
        directive
            Directive of the last cycle. Executions changed since then are left out.
        """
        pending = self.table.pending.executions
        return [
            *self.table.faults(),
            *self.placer.faults(self.table),
            *self.book.faults(pending),
            *self.uncovered.faults(directive, pending),
            *self.unplaced.faults(pending),
        ]

    def forget_reasons(self) -> None:
        """Clear wait reasons, so that the next cycle sets them again."""
        for execution in self.table:
            if not execution.is_over and execution.reason:
                execution.reason = ""
                self.table.note(execution)

    def without_cover(self) -> list[Execution]:
        """Return the executions that no entitlement covers."""
        return [*self.uncovered.candidates, *self.uncovered.members()]


def placer_of(
    table: ExecutionTable,
    machines: MachinePool,
    policy: Policy,
    directive: Directive,
    rng: np.random.Generator,
) -> Placer:
    """Return a placer for the directive's dispatch table, with all placed components counted."""
    placer = Placer(machines, policy, directive.dispatch_table, rng)
    placer.hold_all(table)
    return placer
