"""DispatcherState: what a dispatcher keeps from one cycle to the next."""

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
    """What follows from one execution table over one set of machines.

    It is kept so that an arrival costs what the arrival changes. All of it can be derived again:
    with another table or other machines the dispatcher makes a new one.

    Attributes
    ----------
    table, machines
        What it was made of.
    placer
        What is left of each machine, and the strategy that chooses among them.
    dispatch_table_version
        Of the dispatch table that `placer` follows.
    book
        What entitlements cover.
    uncovered
        Executions without cover, and which of them may run.
    unplaced
        Executions that may run and have no machine.
    growth
        What runs above what was requested.
    closed
        Machines that take no new components.
    cleared
        Machines that were down in the last cycle: nothing runs there any more.
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
        """Return the state before a first cycle: nothing is covered or granted yet."""
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
        """Return where what is kept differs from what is derived again, in words; empty is right.

        Parameters
        ----------
        directive
            That of the last cycle. What has changed since then is left out.
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
        """Leave it to the next cycle to say what executions wait for."""
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
    """Return a placer by the directive's dispatch table, with all components on machines."""
    placer = Placer(machines, policy, directive.dispatch_table, rng)
    placer.hold_all(table)
    return placer
