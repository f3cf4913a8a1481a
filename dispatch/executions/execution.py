"""Execution: one run of an application, its component groups, and where they run.

`ExecutionTable` changes it; the dispatcher sets cover and grants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dispatch.applications.application import Application, Component
from dispatch.executions.states import FINAL_EXECUTION_STATES, ExecutionState
from dispatch.executions.tasks import TaskBook
from dispatch.machines.machine_pool import MachinePool, Vector

#: No limit by quotas.
UNLIMITED: Final = 2**62

#: Maximum number of runs of an execution that are remembered.
MOST_RUNS: Final = 8

#: How many of a group are covered on each machine; None for cover on any machine.
Places = dict[str | None, int]


@dataclass(slots=True)
class HeldComponent:
    """One component on a machine.

    Attributes
    ----------
    index
        Which of its replicas, from 0.
    machine
        ``<group>-<index>``.
    since_ms
        Time since which it holds the machine, in ms from the origin.
    up, up_ms
        Whether it has started; and when, if this was reported since this process dispatches.
    ended
        Whether it has exited; a core component keeps its machine until all its replicas have
        exited.
    ports
        Its ports on the host of that machine, in the order of `Component.ports`.
    task
        The task that it runs, of an execution that has tasks; one that has `ended` waits for the
        next, or for the end of the others.
    """

    index: int
    machine: str
    since_ms: int
    up: bool = False
    ended: bool = False
    up_ms: int | None = None
    ports: tuple[int, ...] = ()
    task: int | None = None


@dataclass(slots=True)
class ComponentGroup:
    """The equal components of one execution: a component of its application, `count` times.

    Attributes
    ----------
    component, amounts
        The component as requested, and the amounts of one replica in the pool's order.
    limit
        Reason why not all of them can run on the machines of the pool; empty if they can.
    wanted
        Number that should run: without elastic components that have exited, and without those that
        fit no machine, so that these take no capacity from others.
    held
        Components on machines, in order of start.
    covered, granted
        Number of replicas that the entitlement covers, and of further ones that may run; set by
        the dispatcher.
    allowed, quota
        Number of elastic components that the quotas allow without cover, and the limiting quota if
        that is fewer than wanted; set by the dispatcher.
    growth
        Number of elastic components beyond the requested count; set by the dispatcher.
    uncovered
        Reason why its reservation cannot cover any of them now; empty if it can.
    places
        Number of covered replicas on each machine.
    avoided
        Machines on which one could not begin: others are taken while they have capacity.
    failures
        Consecutive failures: each doubles the next pause.
    paused_until_ms
        End of the pause in starts after one could not run; 0 without a pause.
    """

    component: Component
    amounts: Vector = ()
    wanted: int = 0
    limit: str = ""
    held: list[HeldComponent] = field(default_factory=list)
    covered: int = 0
    granted: int = 0
    growth: int = 0
    allowed: int = UNLIMITED
    quota: str = ""
    uncovered: str = ""
    places: Mapping[str | None, int] = field(default_factory=dict)
    avoided: set[str] = field(default_factory=set)
    failures: int = 0
    paused_until_ms: int = 0
    _used: set[int] = field(default_factory=set)
    _lowest: int = 0
    _ended: int = 0
    _most: int = 0

    def refit(self, pool: MachinePool) -> None:
        """Compute amounts and limits for the machines of `pool`."""
        self.amounts = pool.vector(self.component.resources)
        self.limit = pool.why_not_more(self.component) or ""
        self._most = (
            self.component.count if self.component.core else pool.count_room(self.component)
        )
        self._count_wanted()

    def count_exit(self) -> None:
        """Count a component that exited: it is not started again."""
        self._ended += 1
        self._count_wanted()

    def _count_wanted(self) -> None:
        # After growth, more components may exit than were requested.
        self.wanted = max(0, min(self.component.count - self._ended, self._most))

    @property
    def running(self) -> int:
        """Number of running components, without those that are starting."""
        return sum(held.up and not held.ended for held in self.held)

    @property
    def has_ended(self) -> bool:
        """Whether all of them have run and exited."""
        return len(self.held) == self.component.count and all(held.ended for held in self.held)

    @property
    def target(self) -> int:
        """Number of replicas that may be on machines."""
        return self.covered + self.granted + self.growth

    @property
    def is_whole(self) -> bool:
        """Whether all requested components are on machines, and none has exited."""
        asked = self.component.count
        return self.wanted == asked == self.covered + self.granted and len(self.held) >= asked

    def cover_flags(self) -> list[bool]:
        """Return for each held component whether it is covered: the oldest lose cover first."""
        if not self.covered:
            return [False] * len(self.held)
        left = dict(self.places)
        flags: list[bool] = []
        for held in reversed(self.held):
            where = held.machine if left.get(held.machine, 0) > 0 else None
            here = left.get(where, 0)
            flags.append(here > 0)
            left[where] = here - 1
        return flags[::-1]

    @property
    def is_covered_anywhere(self) -> bool:
        """Whether a pooled promise covers some of them on any machine."""
        return self.covered > 0 and None in self.places

    def shortage_by_machine(self, places: Mapping[str | None, int]) -> dict[str, int]:
        """Return how many to start on each machine to fill `places`.

        Components that run elsewhere are not moved and count as filling a place. Pooled places need
        no machine.
        """
        missing = sum(places.values()) - len(self.held)
        if missing <= 0:
            return {}
        standing = Counter(held.machine for held in self.held)
        found: dict[str, int] = {}
        for machine, count in places.items():
            if machine is None:
                continue
            more = min(count - standing[machine], missing)
            if more > 0:
                found[machine] = more
                missing -= more
        return found

    def free_index(self) -> int:
        """Return the lowest unused index."""
        while self._lowest in self._used:
            self._lowest += 1
        return self._lowest

    def faults(self) -> Iterator[str]:
        """Yield differences between the recorded indexes and the held components."""
        numbers = [held.index for held in self.held]
        if set(numbers) != self._used or len(self._used) != len(numbers):
            yield f"numbers {sorted(self._used)} are kept of {sorted(numbers)}"
        if any(number not in self._used for number in range(self._lowest)):
            yield f"a number below {self._lowest} is free"

    def take_on(self, held: HeldComponent) -> None:
        """Add a component, started last."""
        self.held.append(held)
        self._used.add(held.index)

    def give_up(self, held: HeldComponent) -> None:
        """Remove a component."""
        self.held.remove(held)
        self._used.discard(held.index)
        self._lowest = min(self._lowest, held.index)


@dataclass(slots=True, eq=False)
class Execution:
    """One run of an application.

    Attributes
    ----------
    id, application, tenant, queue, submitted_ms
        As submitted; a requeued execution keeps its submission.
    number
        Position in the order in which executions entered the table.
    after
        Paths of the reservation's atoms that precede its own, see
        `dispatch.executions.predecessors`.
    parts
        Its component groups, in file order.
    core
        Total amounts of its core components.
    must_leave
        Whether all its components are to be stopped, because it has ended or restarts.
    started_ms
        Time since which its core components have machines; None while it waits.
    uncovered_ms
        Time since which no entitlement covers it; None while one does. Set by the dispatcher.
    run_ends_ms
        For its last requeued runs, by the time at which each got its machines: until when it is
        known to have run.
    reason
        Reason of its final state, or what it waits for.
    needs
        Ids of the executions that must still succeed before it may start.
    awaits_slot
        Whether it must wait until its slot begins.
    slot_began
        Whether its slot has begun; set by the dispatcher.
    retries_used
        Number of restarts after a failure of its own.
    on_late
        Its reaction if it is late (`dispatch.accounts.late_stages`); empty: none.
    tasks
        The tasks that its components run; None if each runs its command once.
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
    queue: str = "default"
    uncovered_ms: int | None = None
    run_ends_ms: dict[int, int] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    awaits_slot: bool = False
    slot_began: bool = False
    retries_used: int = 0
    on_late: str = ""
    tasks: TaskBook | None = None

    def __hash__(self) -> int:
        """Return the number, so that sets of executions have the same order in every run."""
        return self.number

    def refit(self, pool: MachinePool) -> None:
        """Compute amounts and limits for the machines of `pool`."""
        for part in self.parts:
            part.refit(pool)
        self.core = total_of(self.parts, len(pool.resources))

    @property
    def order(self) -> tuple[int, int]:
        """Sort key: by submission, then by `number`."""
        return self.submitted_ms, self.number

    @property
    def is_over(self) -> bool:
        """Whether no component of it will run any more."""
        return self.state in FINAL_EXECUTION_STATES or self.state is ExecutionState.ENDING

    @property
    def is_held_up(self) -> bool:
        """Whether executions that it needs have not succeeded yet, so that it may not start."""
        return bool(self.needs)

    @property
    def may_retry(self) -> bool:
        """Whether a failure of a core component restarts it."""
        return self.application.restart or self.retries_used < self.application.retries

    @property
    def holds(self) -> bool:
        """Whether any component has a machine."""
        return any(part.held for part in self.parts)


#: A component on its machine, with its execution and group.
PlacedComponent = tuple[Execution, ComponentGroup, HeldComponent]


def total_of(parts: Iterable[ComponentGroup], kinds: int) -> Vector:
    """Return the total amounts of all core components of `parts`."""
    whole = [0] * kinds
    for part in parts:
        if part.component.core:
            for kind, amount in enumerate(part.amounts):
                whole[kind] += amount * part.component.count
    return tuple(whole)
