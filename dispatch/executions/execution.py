"""Execution: one run of an application, its component groups, and where they run.

`ExecutionTable` writes it and, as to cover and grants, the dispatcher.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from dispatch.applications.application import Application, Component
from dispatch.executions.states import FINAL_EXECUTION_STATES, ExecutionState
from dispatch.machines.machine_pool import MachinePool, Vector

#: As many as there are: no quota limits it.
UNLIMITED: Final = 2**62

#: Most runs of an execution that are remembered.
MOST_RUNS: Final = 8

#: How many of a group are covered on each machine; None: wherever they run.
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
        Since when it holds the machine, in ms from the origin.
    up, up_ms
        Whether it has started; and when, where that was reported since this process dispatches.
    ended
        Whether it has ended by itself; a core keeps its machine until all of its replicas have.
    """

    index: int
    machine: str
    since_ms: int
    up: bool = False
    ended: bool = False
    up_ms: int | None = None


@dataclass(slots=True)
class ComponentGroup:
    """The equal components of one execution: a component of its application, `count` times.

    Attributes
    ----------
    component, amounts
        What was requested, and for one of them the amounts in the pool's order.
    limit
        Why not all of them can run on the machines there are; empty if they can.
    wanted
        How many are still to run: elastic ones that ended by themselves do not come back, and
        those that no machine could hold are left out, so that they hold no capacity from others.
    held
        Those on machines, first started first.
    covered, granted
        How many the entitlement covers, and how many more may run; the dispatcher writes them.
    allowed, quota
        How many elastic ones quotas let run without cover, and what says so where it is fewer than
        wanted; the dispatcher writes them.
    growth
        How many elastic ones run above what was requested; the dispatcher writes it.
    uncovered
        Why its reservation cannot cover any of them now; empty if it could.
    places
        On which machines how many are covered.
    failures
        Failures in a row: each doubles the next pause.
    paused_until_ms
        Until when none is started, after one could not run; 0 without a pause.
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
    failures: int = 0
    paused_until_ms: int = 0
    _used: set[int] = field(default_factory=set)
    _lowest: int = 0
    _ended: int = 0
    _most: int = 0

    def refit(self, pool: MachinePool) -> None:
        """Count what the machines of `pool` can hold."""
        self.amounts = pool.vector(self.component.resources)
        self.limit = pool.why_not_more(self.component) or ""
        self._most = (
            self.component.count if self.component.core else pool.count_room(self.component)
        )
        self._count_wanted()

    def count_exit(self) -> None:
        """Count one that ended by itself: it does not come back."""
        self._ended += 1
        self._count_wanted()

    def _count_wanted(self) -> None:
        # Of those that have grown more may end than were requested.
        self.wanted = max(0, min(self.component.count - self._ended, self._most))

    @property
    def running(self) -> int:
        """How many run; those that are starting do not."""
        return sum(held.up and not held.ended for held in self.held)

    @property
    def has_ended(self) -> bool:
        """Whether all of them have run and ended by themselves."""
        return len(self.held) == self.component.count and all(held.ended for held in self.held)

    @property
    def target(self) -> int:
        """How many may be held."""
        return self.covered + self.granted + self.growth

    @property
    def is_whole(self) -> bool:
        """Whether all that were requested are held, and none has ended by itself."""
        asked = self.component.count
        return self.wanted == asked == self.covered + self.granted and len(self.held) >= asked

    def cover_flags(self) -> list[bool]:
        """Return which of those held are covered: the first to have started lose cover first."""
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
        """Whether totals cover some of them, wherever they run."""
        return self.covered > 0 and None in self.places

    def shortage_by_machine(self, places: Mapping[str | None, int]) -> dict[str, int]:
        """Return how many are still to be put on each machine so that those of `places` stand.

        Those that run elsewhere are not moved: they count as if they stood there. Totals need no
        machine.
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
        """Return the lowest number that none of them has."""
        while self._lowest in self._used:
            self._lowest += 1
        return self._lowest

    def faults(self) -> Iterator[str]:
        """Yield where what is kept of the numbers differs from what is held."""
        numbers = [held.index for held in self.held]
        if set(numbers) != self._used or len(self._used) != len(numbers):
            yield f"numbers {sorted(self._used)} are kept of {sorted(numbers)}"
        if any(number not in self._used for number in range(self._lowest)):
            yield f"a number below {self._lowest} is free"

    def take_on(self, held: HeldComponent) -> None:
        """Count a component as held, started last."""
        self.held.append(held)
        self._used.add(held.index)

    def give_up(self, held: HeldComponent) -> None:
        """Count a component as held no more."""
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
        Place in the order in which the table met them.
    after
        Paths of the reservation's atoms that go before its own, see
        `dispatch.executions.predecessors`.
    parts
        Its component groups, in file order.
    core
        What its cores take together.
    must_leave
        Whether all that it holds is to be stopped: it is over, or begins again.
    started_ms
        Since when its cores have machines; None while it waits.
    uncovered_ms
        Since when no entitlement covers it; None while one does. The dispatcher writes it.
    run_ends_ms
        Of its last runs that were sent back into the line, by when each had its machines: until
        when it is known to have gone on.
    reason
        Why it is in a final state, or what it waits for.
    needs
        Ids of the executions that have to succeed before it may start, less those that have.
    awaits_slot
        Whether it may not start before its slot begins.
    slot_began
        Whether that has begun; the dispatcher writes it.
    retries_used
        How often it was started again after a failure of its own.
    on_late
        What it does when it is late (`dispatch.accounts.late_stages`); empty: nothing.
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

    def __hash__(self) -> int:
        """Return the number: sets of executions come in the same order in every run."""
        return self.number

    def refit(self, pool: MachinePool) -> None:
        """Count what the machines of `pool` can hold."""
        for part in self.parts:
            part.refit(pool)
        self.core = total_of(self.parts, len(pool.resources))

    @property
    def order(self) -> tuple[int, int]:
        """Its place among all: by submission, then by `number`."""
        return self.submitted_ms, self.number

    @property
    def is_over(self) -> bool:
        """Whether nothing will run of it any more."""
        return self.state in FINAL_EXECUTION_STATES or self.state is ExecutionState.ENDING

    @property
    def is_held_up(self) -> bool:
        """Whether executions that it needs have not succeeded yet: it may not start at all."""
        return bool(self.needs)

    @property
    def may_retry(self) -> bool:
        """Whether a failure of a core component restarts it."""
        return self.application.restart or self.retries_used < self.application.retries

    @property
    def holds(self) -> bool:
        """Whether any component has a machine."""
        return any(part.held for part in self.parts)


#: A component on its machine: of which execution and group.
PlacedComponent = tuple[Execution, ComponentGroup, HeldComponent]


def total_of(parts: Iterable[ComponentGroup], kinds: int) -> Vector:
    """Return what all core components of `parts` take together."""
    whole = [0] * kinds
    for part in parts:
        if part.component.core:
            for kind, amount in enumerate(part.amounts):
                whole[kind] += amount * part.component.count
    return tuple(whole)
