"""Execution: one run of an application, its parts, and where their components are.

Written by `ExecutionTable` and, as to cover and grants, by the dispatcher; read by everybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dispatch.applications.application import Application, Component
from dispatch.executions.states import FINAL_EXECUTION_STATES, ExecutionState
from dispatch.machines.machine_pool import MachinePool, Vector


@dataclass(slots=True)
class HeldComponent:
    """One component on a machine; `up` once it has started."""

    index: int
    machine: str
    since_ms: int
    up: bool = False


@dataclass(slots=True)
class ComponentGroup:
    """The components of one kind of one execution.

    Attributes
    ----------
    component, amounts
        What was asked for, and for one of them the amounts in the pool's order.
    limit
        Why not all of them can run on the machines there are; empty where they can.
    wanted
        How many are still to run: elastic ones that ended by themselves do not come back, and
        those that no machine could hold are left out, so that they hold no room from others.
    held
        Those on machines, first started first.
    covered, granted
        How many the entitlement covers, and how many more may run (the dispatcher's).
    """

    component: Component
    amounts: Vector = ()
    wanted: int = 0
    limit: str = ""
    held: list[HeldComponent] = field(default_factory=list)
    covered: int = 0
    granted: int = 0
    failures: int = 0
    paused_until_ms: int = 0
    _used: set[int] = field(default_factory=set)
    _lowest: int = 0
    _ended: int = 0
    _most: int = 0

    def refit(self, pool: MachinePool) -> None:
        """Follow the machines there are."""
        self.amounts = pool.vector(self.component.resources)
        self.limit = pool.why_not_more(self.component) or ""
        self._most = self.component.count if self.component.core else pool.most(self.component)
        self._count_wanted()

    def ended(self) -> None:
        """Count one that ended by itself."""
        self._ended += 1
        self._count_wanted()

    def _count_wanted(self) -> None:
        self.wanted = min(self.component.count - self._ended, self._most)

    def free_index(self) -> int:
        """Return the lowest number that none of them has."""
        while self._lowest in self._used:
            self._lowest += 1
        return self._lowest

    def take_on(self, piece: HeldComponent) -> None:
        """Count a piece as held, last."""
        self.held.append(piece)
        self._used.add(piece.index)

    def give_up(self, piece: HeldComponent) -> None:
        """Count a piece as held no more."""
        self.held.remove(piece)
        self._used.discard(piece.index)
        self._lowest = min(self._lowest, piece.index)


@dataclass(slots=True, eq=False)
class Execution:
    """One run of an application.

    Attributes
    ----------
    id, application, tenant, submitted_ms
        As submitted; a requeued execution keeps its submission.
    number
        Place in the order in which the table met them.
    after
        Paths of the reservation's atoms that go before its own, see
        `dispatch.executions.predecessors`.
    parts
        One a component, in file order.
    core
        What its cores take together.
    must_leave
        Whether all that it holds is to be stopped: it is over, or begins anew.
    started_ms
        Since when its cores have machines; None while it waits.
    reason
        Why it is in a final state, or what it waits for.
    """

    id: str
    application: Application
    tenant: str
    submitted_ms: int
    number: int
    after: tuple[str, ...]
    parts: tuple[ComponentGroup, ...]
    core: Vector = ()
    state: ExecutionState = ExecutionState.QUEUED
    must_leave: bool = False
    started_ms: int | None = None
    ended_ms: int | None = None
    reason: str = ""

    def __hash__(self) -> int:
        """Return the number: sets of executions come in the same order in every run."""
        return self.number

    def refit(self, pool: MachinePool) -> None:
        """Follow the machines there are."""
        for part in self.parts:
            part.refit(pool)
        self.core = total_of(self.parts, len(pool.resources))

    @property
    def order(self) -> tuple[int, int]:
        """By submission, the first known first."""
        return self.submitted_ms, self.number

    @property
    def is_over(self) -> bool:
        """Whether nothing will run of it any more."""
        return self.state in FINAL_EXECUTION_STATES or self.state is ExecutionState.ENDING

    @property
    def holds(self) -> bool:
        """Whether any component has a machine."""
        return any(part.held for part in self.parts)


def total_of(parts: Iterable[ComponentGroup], kinds: int) -> Vector:
    """Return what all core components of `parts` take together."""
    whole = [0] * kinds
    for part in parts:
        if part.component.core:
            for kind, amount in enumerate(part.amounts):
                whole[kind] += amount * part.component.count
    return tuple(whole)
