"""Placer: finds machines for components and tracks the exact free capacity of each machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dispatch.entitlements.slots import SlotsAhead
from dispatch.executions.execution import ComponentGroup, Execution, HeldComponent
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool, Vector
from dispatch.machines.placement.policy import Policy
from dispatch.machines.placement.strategy import MachinePlacement, PlacedJob
from lp.lotes.dispatch_table import DispatchTable
from rdl.resources import MEMORY

#: Shape of a component for the choice of a machine.
_Shape = tuple[Vector, frozenset[str], str | None, int | None]


class KeptRoom:
    """Reserve on each machine for slots whose components are not there yet.

    Attributes
    ----------
    amounts
        int64[machines, resources].
    """

    def __init__(self, pool: MachinePool) -> None:
        self.amounts = np.zeros((len(pool.names), len(pool.resources)), dtype=np.int64)
        self._jobs: dict[int, PlacedJob] = {}

    def numbers(self) -> list[int]:
        """Return the machines with a reserve."""
        return sorted(self._jobs)

    def of(self, left: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the free capacity of all machines minus the reserve."""
        return left - self.amounts if self._jobs else left

    def job(self, number: int) -> PlacedJob | None:
        """Return the job that represents a machine's reserve in the strategy."""
        return self._jobs.get(number)

    def set(
        self,
        number: int,
        amounts: NDArray[np.int64],
        job_of: Callable[[NDArray[np.int64]], PlacedJob],
    ) -> PlacedJob | None:
        """Set the reserve of a machine; return the job that represents it, or None if zero."""
        self.amounts[number] = amounts
        self._jobs.pop(number, None)
        if not amounts.any():
            return None
        self._jobs[number] = job_of(amounts)
        return self._jobs[number]


class Placer:
    """Places components on the machines of a pool by a strategy.

    Parameters
    ----------
    pool
        The machines.
    policy
        Name of the strategy; ``lotes`` needs a table and is best fit while there is none.
    table
        Targets of LoTES, in the order of the pool's groups, or None.
    rng
        For the roulette wheels of LoTES.
    """

    def __init__(
        self,
        pool: MachinePool,
        policy: Policy,
        table: DispatchTable | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.pool = pool
        self._left = pool.capacity.copy()
        self._fewest = int(pool.label_counts.min()) if len(pool.names) else 0
        self._largest = np.maximum(pool.capacity.max(axis=0, initial=1), 1)
        self._open = np.ones(len(pool.names), dtype=np.bool_)
        self._closed: frozenset[str] = frozenset()
        self._freed: set[int] = set()
        self._vacated: set[int] = set()
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._unit: NDArray[np.float64] | None = None
        self._class_of: Callable[[NDArray[np.float64], str | None], int] = lambda _r, _n: 0
        self._classes: tuple[str, ...] = ()
        self._jobs: dict[_Shape, PlacedJob] = {}
        self._kept = KeptRoom(pool)
        self._ahead: SlotsAhead | None = None
        self._until = np.zeros(0, dtype=np.int64)
        if policy == "lotes" and table is not None:
            self._strategy: MachinePlacement = MachinePlacement.of_table(table)
            self._unit = _units_of(pool, table)
            self._class_of = _class_finder(table)
            self._classes = table.classes
        else:
            plain: Policy = "best_fit" if policy == "lotes" else policy
            memory = pool.resources.index(MEMORY) if MEMORY in pool.resources else 0
            self._strategy = MachinePlacement(plain, pool.configurations, memory=memory)

    def hold_all(self, table: ExecutionTable) -> None:
        """Count the components already on machines, after a restart or with a new table."""
        for execution in table:
            for part in execution.parts:
                for held in part.held:
                    self.hold(execution, part, held)

    def set_open(self, closed: frozenset[str]) -> None:
        """Open all machines for new components except those in `closed`."""
        if closed == self._closed:
            return
        self._closed = closed
        wanted = np.ones(len(self.pool.names), dtype=np.bool_)
        numbers = [n for name in closed if (n := self.pool.number_of(name)) is not None]
        wanted[numbers] = False
        for number in np.flatnonzero(wanted != self._open).tolist():
            self._strategy.set_open(number, bool(wanted[number]))
            if wanted[number]:
                self._vacated.add(number)
        self._open = wanted

    def choose(self, execution: Execution, part: ComponentGroup) -> str | None:
        """Return a machine with capacity for one component, or None.

        Work under a reservation avoids machines that carry more labels than others with capacity:
        covered work is not moved, and work entitled to those labels would have to wait.
        """
        job = self._job(execution, part)
        if self._unit is not None:
            job = replace(job, draw=float(self._rng.random()))
        if self._ahead is not None:
            job = replace(job, allowed=self._lendable(execution, part, self._ahead))
        if part.avoided:
            job = self._elsewhere(job, part)
        found = self._strategy.choose(job)
        if found is not None and execution.application.reservation is not None:
            found = self._plainer(found, part)
        return None if found is None else self.pool.names[found]

    def _elsewhere(self, job: PlacedJob, part: ComponentGroup) -> PlacedJob:
        """Return a job that leaves out the machines to avoid, if others have capacity."""
        others = np.array([name not in part.avoided for name in self.pool.names], dtype=np.bool_)
        allowed = others if job.allowed is None else job.allowed & others
        has_room = bool((allowed & self._machines_with_room(part)).any())
        return replace(job, allowed=allowed) if has_room else job

    def _plainer(self, found: int, part: ComponentGroup) -> int:
        """Return the machine with capacity and the fewest labels, ties to the least left over."""
        counts = self.pool.label_counts
        if counts[found] <= max(self._fewest, len(part.component.labels)):
            return found
        numbers = np.flatnonzero(self._machines_with_room(part) & (counts < counts[found]))
        if not numbers.size:
            return found
        over = ((self._left[numbers] - part.amounts) / self._largest).sum(axis=1)
        return int(numbers[np.lexsort((over, counts[numbers]))[0]])

    def _machines_with_room(self, part: ComponentGroup) -> NDArray[np.bool_]:
        """Return which open machines have capacity for one component, bool[machines]."""
        fits = self._open & (self._kept.of(self._left) >= part.amounts).all(axis=1)
        allowed = self.pool.label_mask(part.component.labels)
        return fits if allowed is None else fits & allowed

    def set_ahead(self, ahead: SlotsAhead | None, idle: Sequence[int]) -> None:
        """Set when slots begin on each machine; on `idle` machines they have begun and are lent."""
        self._ahead = None
        if ahead is not None and ahead.names == self.pool.names:
            self._ahead = ahead
            self._until = ahead.until.copy()
            self._until[list(idle)] = 0

    def _lendable(
        self, execution: Execution, part: ComponentGroup, ahead: SlotsAhead
    ) -> NDArray[np.bool_] | None:
        """Return the machines to choose from: of its own next slots, or needed last by slots."""
        fits = self._machines_with_room(part)
        reservation = execution.application.reservation
        if reservation is not None:
            own = np.zeros(len(fits), dtype=np.bool_)
            own[ahead.own(reservation)] = True
            if (own & fits).any():
                return own & fits
        last, allowed = needed_last(fits, self._until), self.pool.label_mask(part.component.labels)
        return last if allowed is None else last & allowed

    def reserve_on(self, machine: str) -> NDArray[np.int64]:
        """Return the reserve for slots on a machine, int64[resources]."""
        number = self.pool.number_of(machine)
        assert number is not None
        found: NDArray[np.int64] = self._kept.amounts[number]
        return found

    def keep(self, machine: str, amounts: NDArray[np.int64]) -> None:
        """Set the reserve of a machine, which only components of slots can use."""
        number = self.pool.number_of(machine)
        assert number is not None
        if (amounts < self._kept.amounts[number]).any():
            self._freed.add(number)
            self._vacated.add(number)
        before = self._kept.job(number)
        if before is not None:
            self._strategy.count_end(number, before)
        after = self._kept.set(number, amounts, self._plain_job)
        if after is not None:
            self._strategy.count_start(number, after)

    def keep_all(self, wanted: Mapping[int, NDArray[np.int64]]) -> bool:
        """Set reserves by machine number, zero elsewhere; return whether capacity became free."""
        came_free = False
        nothing = np.zeros(len(self.pool.resources), dtype=np.int64)
        for number in sorted({*self._kept.numbers(), *wanted}):
            amounts = wanted.get(number, nothing)
            if (amounts != self._kept.amounts[number]).any():
                came_free = came_free or bool((amounts < self._kept.amounts[number]).any())
                self.keep(self.pool.names[number], amounts)
        return came_free

    def short(self) -> list[tuple[str, list[int]]]:
        """Return the machines with less free capacity than reserve, and the missing amounts."""
        found: list[tuple[str, list[int]]] = []
        for number in self._kept.numbers():
            missing = self._kept.amounts[number] - self._left[number]
            if (missing > 0).any():
                found.append((self.pool.names[number], np.maximum(missing, 0).tolist()))
        return found

    def held_amounts(self) -> list[int]:
        """Return the total held by components on all machines, by resource."""
        held: list[int] = (self.pool.capacity.sum(axis=0) - self._left.sum(axis=0)).tolist()
        return held

    def is_open(self, machine: str) -> bool:
        """Return whether a machine takes new components."""
        number = self.pool.number_of(machine)
        return number is not None and bool(self._open[number])

    def hold(self, execution: Execution, part: ComponentGroup, held: HeldComponent) -> None:
        """Subtract a component from the free capacity of its machine."""
        number = self.pool.number_of(held.machine)
        if number is not None:
            self._left[number] -= part.amounts
            self._strategy.count_start(number, self._job(execution, part))

    def release(self, execution: Execution, part: ComponentGroup, held: HeldComponent) -> None:
        """Release the capacity of a component."""
        number = self.pool.number_of(held.machine)
        if number is not None:
            self._freed.add(number)
            self._vacated.add(number)
            self._left[number] += part.amounts
            self._strategy.count_end(number, self._job(execution, part))

    @property
    def has_freed(self) -> bool:
        """Whether capacity became free since `take_fitting` was called."""
        return bool(self._freed)

    def take_vacated(self) -> list[int]:
        """Return the numbers of the machines where capacity became free since the last call."""
        vacated, self._vacated = sorted(self._vacated), set()
        return vacated

    def class_of(self, execution: Execution, part: ComponentGroup) -> int:
        """Return the class of a component in the dispatch table; 0 if there is none."""
        return self._job(execution, part).job_class

    def running_by_class(self, table: ExecutionTable) -> dict[str, list[int]]:
        """Return how many components of each class run on each group; empty without a table."""
        if not self._classes:
            return {}
        found = {group.name: [0] * len(self._classes) for group in self.pool.cluster.machines}
        for execution in table:
            for part in execution.parts:
                for held in part.held:
                    if self.pool.number_of(held.machine) is not None:
                        group = held.machine.rpartition("-")[0]
                        found[group][self.class_of(execution, part)] += 1
        return found

    def class_name(self, number: int) -> str:
        """Return the name of a class; an unknown number means all work."""
        return self._classes[number] if 0 <= number < len(self._classes) else "all classes"

    def below_target(self, machine: int, class_: int) -> int:
        """Return how many components of a class a machine is below its target."""
        return self._strategy.below_target(machine, class_)

    def serves(self, machine: int, class_: int) -> bool:
        """Return whether a machine takes components of a class from its queue (LoTES 4.3.2)."""
        return self._strategy.serves(machine, class_)

    def can_serve(self, class_: int, part: ComponentGroup) -> bool:
        """Return whether any machine that takes a class from its queue could fit a component."""
        fits = (self.pool.capacity >= part.amounts).all(axis=1)
        allowed = self.pool.label_mask(part.component.labels)
        if allowed is not None:
            fits &= allowed
        return any(self._strategy.serves(one, class_) for one in np.flatnonzero(fits).tolist())

    def fits_labels(self, machine: int, part: ComponentGroup) -> bool:
        """Return whether an open machine carries the labels of a component."""
        allowed = self.pool.label_mask(part.component.labels)
        return bool(self._open[machine]) and (allowed is None or bool(allowed[machine]))

    def take_fitting(self, asked: Sequence[Vector]) -> list[bool]:
        """Return which amounts fit on a machine where capacity became free since the last call."""
        freed, self._freed = sorted(self._freed), set()
        if not freed or not asked:
            return [False] * len(asked)
        room = self._kept.of(self._left)[freed][None, :, :]
        holds = np.all(room >= np.array(asked, dtype=np.int64)[:, None, :], axis=2)
        return [bool(one) for one in np.any(holds, axis=1)]

    def free(self, machine: str) -> NDArray[np.int64]:
        """Return the free capacity of a machine minus its reserve, int64[resources]."""
        number = self.pool.number_of(machine)
        assert number is not None
        found: NDArray[np.int64] = self._left[number] - self._kept.amounts[number]
        return found

    def overfull(self) -> list[tuple[str, list[int]]]:
        """Return the overcommitted machines, each with the excess amounts."""
        numbers = np.flatnonzero((self._left < 0).any(axis=1)).tolist()
        return [(self.pool.names[one], np.maximum(-self._left[one], 0).tolist()) for one in numbers]

    def faults(self, table: ExecutionTable) -> Iterator[str]:
        """Yield the machines whose free capacity differs from the components placed there."""
        left = self.pool.capacity.copy()
        pending = table.pending
        came = {id(held) for _, _, held in pending.came}
        for execution in table:
            for part in execution.parts:
                for held in part.held:
                    number = self.pool.number_of(held.machine)
                    if number is not None and id(held) not in came:
                        left[number] -= part.amounts
        for _, part, held in pending.left:
            number = self.pool.number_of(held.machine)
            if number is not None and id(held) not in came:
                left[number] -= part.amounts
        unit = 1.0 if self._unit is None else self._unit
        for number, name in enumerate(self.pool.names):
            kept, found = self._left[number].tolist(), left[number].tolist()
            if kept != found:
                yield f"{name}: {kept} is left and not {found}"
            free = (self._left[number] - self._kept.amounts[number]) / unit
            there = self._strategy.free_on(number)
            if not np.allclose(there, free, rtol=1e-9, atol=1e-6):
                yield f"{name}: {there.tolist()} is left for the strategy and not {free.tolist()}"
            if self._open[number] != (name not in self._closed):
                yield f"{name}: is open though closed, or the other way round"

    def labels_of(self, machine: str) -> int:
        """Return how many labels a machine carries."""
        number = self.pool.number_of(machine)
        assert number is not None
        return int(self.pool.label_counts[number])

    def candidates(self, part: ComponentGroup) -> list[str]:
        """Return the open machines that could fit one component if they were empty.

        Those with the fewest labels come first, among them those with the most free capacity.
        """
        fits = self._open & (self.pool.capacity >= part.amounts).all(axis=1)
        allowed = self.pool.label_mask(part.component.labels)
        if allowed is not None:
            fits &= allowed
        numbers = np.flatnonzero(fits)
        asked = np.maximum(part.amounts, 1)
        room = (self._left[numbers] / asked).min(axis=1)
        order = np.lexsort((-room, self.pool.label_counts[numbers]))
        return [self.pool.names[number] for number in numbers[order].tolist()]

    def _plain_job(self, amounts: NDArray[np.int64]) -> PlacedJob:
        """Return a job for the strategy with these amounts."""
        request = amounts.astype(np.float64)
        if self._unit is not None:
            request = request / self._unit
        return PlacedJob(request, self._class_of(request, None))

    def _job(self, execution: Execution, part: ComponentGroup) -> PlacedJob:
        application, component = execution.application, part.component
        shape = (part.amounts, component.labels, application.job_class, application.size_ms)
        job = self._jobs.get(shape)
        if job is None:
            request = np.array(part.amounts, dtype=np.float64)
            if self._unit is not None:
                request = request / self._unit
            hours = 0.0 if application.size_ms is None else application.size_ms / 3_600_000
            job = PlacedJob(
                request,
                self._class_of(request, application.job_class),
                hours,
                allowed=self.pool.label_mask(component.labels),
            )
            self._jobs[shape] = job
        return job


def needed_last(fits: NDArray[np.bool_], until: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of the machines that fit are needed last by slots, bool[machines].

    Times with the same power of two count as equal, so that the strategy has a choice. Machines
    that do not fit are included too: they do no harm, and closing them would take time.

    Parameters
    ----------
    fits
        Which machines have capacity.
    until
        Steps until the next slot begins on each.
    """
    numbers = np.flatnonzero(fits)
    if not numbers.size:
        return ~fits
    ranks = np.frexp(until[numbers].astype(np.float64))[1]
    wanted = np.ones(len(fits), dtype=np.bool_)
    wanted[numbers] = ranks == ranks.max()
    return wanted


def _units_of(pool: MachinePool, table: DispatchTable) -> NDArray[np.float64]:
    """Return the divisors that convert amounts of the pool to units of the table.

    Raises
    ------
    ValueError
        If the table is for other machines.
    """
    groups = tuple(group.name for group in pool.cluster.machines)
    if table.configurations != groups or table.machines != len(pool.names):
        raise ValueError(f"a dispatch table of {table.machines} machines for {len(pool.names)}")
    if table.resources != pool.resources:
        raise ValueError(f"a dispatch table of {table.resources} for {pool.resources}")
    largest = pool.configurations.capacity.max(axis=0)
    return np.where(largest > 0, largest, 1.0)


def _class_finder(
    table: DispatchTable,
) -> Callable[[NDArray[np.float64], str | None], int]:
    """Return a function that finds the class of a request: the named one, else the nearest."""
    numbers = {name: number for number, name in enumerate(table.classes)}

    def find(request: NDArray[np.float64], name: str | None) -> int:
        if name in numbers:
            return numbers[name]
        distance = (((table.requests - request) / table.scale) ** 2).sum(axis=1)
        return int(np.argmin(distance))

    return find
