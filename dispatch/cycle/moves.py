"""Moves: placements and removals of components in one cycle, and the resulting deltas."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from dispatch.cycle.placer import Placer
from dispatch.cycle.victims import Clearing, clearing_of, victims_first
from dispatch.executions.assignment import Delta, Key, Op, in_order
from dispatch.executions.execution import ComponentGroup, Execution, HeldComponent, PlacedComponent
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import Vector

_Shape = tuple[Vector, frozenset[str]]


class Moves:
    """Places and removes components, and records the deltas for a backend.

    Parameters
    ----------
    table, placer
        Table of the components, and the placer that chooses machines.
    now_ms
        The instant of the cycle.
    stop
        Requeues an execution whose core components were removed.

    Attributes
    ----------
    again
        Executions that lost elastic components to others and must be placed again.
    """

    def __init__(
        self, table: ExecutionTable, placer: Placer, now_ms: int, stop: Callable[[Execution], None]
    ) -> None:
        self.again: set[Execution] = set()
        # By key, in order; a component that returns to its machine is in neither.
        self._removed: dict[Key, PlacedComponent] = {}
        self._added: dict[Key, PlacedComponent] = {}
        self._reasons: dict[Key, str] = {}
        self._held_before: dict[Execution, bool] = {}
        self._table = table
        self._placer = placer
        self._now_ms = now_ms
        self._stop = stop
        # Shapes that found no machine, or none with fewer labels, since capacity last became free.
        self._full: set[_Shape] = set()
        self._too_large: list[Vector] = []
        self._plainest: set[_Shape] = set()
        self._begun_anew: set[Execution] = set()

    def deltas(self) -> tuple[Delta, ...]:
        """Return the deltas for a backend, in order."""
        found: list[Delta] = []
        for key, (execution, _, held) in self._removed.items():
            op = Op.SHRINK if execution.holds else Op.STOP
            found.append(Delta(op, *key, held.machine, self._reasons.get(key, "")))
        for key, (execution, _, held) in self._added.items():
            op = Op.GROW if self._held_before[execution] else Op.START
            found.append(Delta(op, *key, held.machine, self._reasons.get(key, "")))
        return in_order(found)

    def shrink(self, execution: Execution, reason: str) -> None:
        """Stop the components of an execution that may no longer run."""
        for part in execution.parts:
            over = len(part.held) - part.target
            if over > 0:
                for held in reversed(_leavers(part, over)):
                    self.remove(execution, part, held, reason)

    def keep_less(self, wanted: Mapping[int, NDArray[np.int64]]) -> bool:
        """Set the reserve for slots by machine; return whether capacity became free."""
        came_free = self._placer.keep_all(wanted)
        if came_free:
            self._look_again()
        return came_free

    def _look_again(self) -> None:
        """Forget failed placements, because capacity became free."""
        self._full.clear()
        self._too_large.clear()
        self._plainest.clear()

    def remove_all(self, execution: Execution, reason: str) -> None:
        """Stop all components of an execution; any that are placed again are restarted."""
        self._begun_anew.add(execution)
        for part in execution.parts:
            for held in list(part.held):
                self.remove(execution, part, held, reason)

    def remove(
        self, execution: Execution, part: ComponentGroup, held: HeldComponent, reason: str
    ) -> None:
        """Take a component off its machine."""
        self._held_before.setdefault(execution, True)
        self._table.take_off(execution, part, held)
        self._placer.release(execution, part, held)
        self._look_again()
        key = (execution.id, part.component.name, held.index)
        if key in self._added:
            del self._added[key]
        else:
            self._removed[key] = (execution, part, held)
            self._reasons[key] = reason

    def grow(self, execution: Execution) -> bool:
        """Place the missing components of an execution; return whether all have a machine.

        Core components without cover are placed together or not at all.
        """
        complete = True
        cores = [part for part in execution.parts if part.component.core]
        for part in sorted(cores, key=lambda one: one.component.start_order):
            complete = self._fill(execution, part) and complete
        if not complete:
            if not any(part.covered for part in cores):
                self._take_back(execution)
            return False
        rest = [part for part in execution.parts if not part.component.core]
        for part in sorted(rest, key=lambda one: one.component.start_order):
            complete = self._fill(execution, part) and complete
        return complete

    def begin(self, execution: Execution, machine: int | None) -> bool:
        """Place the core components of an execution together; return whether it succeeded.

        Parameters
        ----------
        machine
            Number of the machine for the first component; None leaves all to the strategy. Elastic
            components without cover are stopped to make space there.
        """
        if machine is None:
            return self.grow(execution)
        part = next(one for one in execution.parts if one.component.core)
        if part.paused_until_ms > self._now_ms or not self._placer.fits_labels(machine, part):
            return False
        name = self._placer.pool.names[machine]
        missing = (np.array(part.amounts, dtype=np.int64) - self._placer.free(name)).tolist()
        if any(amount > 0 for amount in missing):
            clearing = clearing_of(name, missing, self._revocable(name, execution)[0], [])
            if clearing is None:
                return False
            self._clear(execution.id, clearing)
        self._put(execution, part, name)
        return self.grow(execution)

    def grow_above(self, execution: Execution, part: ComponentGroup) -> bool:
        """Place an elastic component beyond the requested count; return whether it fits."""
        if part.paused_until_ms > self._now_ms:
            return False
        machine = self._find(execution, part)
        if machine is None:
            return False
        self._put(execution, part, machine)
        return True

    def _fill(self, execution: Execution, part: ComponentGroup) -> bool:
        if not self._fill_slots(execution, part):
            return False
        while len(part.held) < part.covered + part.granted:
            if part.paused_until_ms > self._now_ms:
                return False
            part.paused_until_ms = 0
            machine = self._find(execution, part)
            if machine is None:
                return False
            self._put(execution, part, machine)
        return True

    def _fill_slots(self, execution: Execution, part: ComponentGroup) -> bool:
        """Place covered components on their slots' machines; return whether all are placed."""
        complete = True
        for machine, count in part.shortage_by_machine(part.places).items():
            for _ in range(count):
                if part.paused_until_ms > self._now_ms:
                    return False
                part.paused_until_ms = 0
                if not self._make_slot(execution, part, machine):
                    complete = False
                    break
                self._put(execution, part, machine)
        return complete

    def _make_slot(self, execution: Execution, part: ComponentGroup, machine: str) -> bool:
        """Free capacity for one component on its slot's machine; return whether it succeeded."""
        placer = self._placer
        if not placer.is_open(machine):
            return False
        kept = placer.reserve_on(machine)
        placer.keep(machine, np.maximum(kept - part.amounts, 0))
        missing = (np.array(part.amounts, dtype=np.int64) - placer.free(machine)).tolist()
        if all(amount <= 0 for amount in missing):
            return True
        for pooled in (False, True):
            clearing = self._clearing_on(machine, missing, execution, pooled=pooled)
            if clearing is not None:
                self._clear(execution.id, clearing)
                return True
        placer.keep(machine, kept)
        return False

    def clear_kept(self) -> None:
        """Stop components without cover in capacity that slots need, on the slots' machines."""
        for machine, missing in self._placer.short():
            clearing = self._clearing_on(machine, missing)
            if clearing is not None:
                self._clear("a slot", clearing)

    def _clearing_on(
        self,
        machine: str,
        missing: list[int],
        beneficiary: Execution | None = None,
        *,
        pooled: bool = False,
    ) -> Clearing | None:
        """Return the fewest components that must leave one machine for a slot, or None.

        With `pooled`, components covered by a pooled promise may leave last, since they may run
        elsewhere.
        """
        elastic, cores = self._revocable(machine, beneficiary)
        elastic.sort(key=lambda victim: _keeps_all(victim[1]))
        ordered = victims_first(cores, self._now_ms, lambda _: False)
        if pooled:
            more, others = self._covered_by_totals(machine, cores)
            elastic, ordered = elastic + more, ordered + others
        return clearing_of(machine, missing, elastic, ordered)

    def _covered_by_totals(
        self, machine: str, known: list[Execution]
    ) -> tuple[list[PlacedComponent], list[Execution]]:
        """Return the components on a machine that are covered without a slot there."""
        elastic: list[PlacedComponent] = []
        cores: set[Execution] = set()
        for execution, part, held in self._table.on_machine(machine):
            if part.is_covered_anywhere and _is_covered(part, held):
                if part.component.core:
                    cores.add(execution)
                else:
                    elastic.append((execution, part, held))
        elastic.sort(key=lambda victim: -victim[2].since_ms)
        return elastic, victims_first(cores.difference(known), self._now_ms, lambda _: False)

    def _take_back(self, execution: Execution) -> None:
        """Remove the core components of an execution that were not all placed."""
        for part in execution.parts:
            for held in list(part.held):
                self.remove(execution, part, held, "not all of its cores find machines")

    def _put(self, execution: Execution, part: ComponentGroup, machine: str) -> None:
        self._held_before.setdefault(execution, execution.holds)
        held = HeldComponent(part.free_index(), machine, self._now_ms)
        key = (execution.id, part.component.name, held.index)
        before = self._removed.get(key)
        stays = before is not None and before[2].machine == machine
        if before is not None and stays and execution not in self._begun_anew:
            del self._removed[key]
            held = before[2]
        else:
            self._added[key] = (execution, part, held)
        self._table.put_on(execution, part, held)
        self._placer.hold(execution, part, held)

    def _find(self, execution: Execution, part: ComponentGroup) -> str | None:
        """Return a machine with capacity, freeing some if the component has the right to it."""
        covered = len(part.held) < part.covered
        shape = (part.amounts, part.component.labels)
        if shape not in self._full and not self._exceeds(part.amounts):
            machine = self._placer.choose(execution, part)
            if machine is not None:
                plainer = self._plainer(execution, part, machine) if covered else None
                return machine if plainer is None else self._clear(execution.id, plainer)
            self._full.add(shape)
            if not part.component.labels:
                self._too_large.append(part.amounts)
        if not (covered or part.component.core):
            return None
        clearing = self._machine_to_clear(execution, part, cores=covered)
        return None if clearing is None else self._clear(execution.id, clearing)

    def _plainer(self, execution: Execution, part: ComponentGroup, machine: str) -> Clearing | None:
        """Return a machine with fewer labels that components without cover can leave, or None.

        Covered components are never moved, and work entitled to those labels may come later; until
        then, work without cover may use the labelled machine.
        """
        labels = self._placer.labels_of(machine)
        shape = (part.amounts, part.component.labels)
        if labels <= len(part.component.labels) or shape in self._plainest:
            return None
        found = self._machine_to_clear(execution, part, below=labels, cores=True)
        if found is None:
            self._plainest.add(shape)
        return found

    def _clear(self, who: str, clearing: Clearing) -> str:
        """Free capacity on a machine for an execution."""
        reason = f"{who} needs capacity on {clearing.machine}"
        for victim in clearing.elastic:
            self.remove(*victim, reason)
            self.again.add(victim[0])
        for stopped in clearing.cores:
            self.remove_all(stopped, reason)
            self._stop(stopped)
            if any(part.covered for part in stopped.parts):
                self.again.add(stopped)
        return clearing.machine

    def _exceeds(self, amounts: Vector) -> bool:
        """Return whether a request no larger has failed since capacity last became free."""
        return any(
            all(least <= amount for least, amount in zip(failed, amounts, strict=True))
            for failed in self._too_large
        )

    def _machine_to_clear(
        self,
        execution: Execution,
        part: ComponentGroup,
        below: int | None = None,
        *,
        cores: bool = False,
    ) -> Clearing | None:
        """Return the machine on which the least must be stopped, ties to the fewest labels.

        Parameters
        ----------
        below
            Consider only machines with fewer labels than this.
        cores
            Whether core components without cover may be stopped: only for covered components.
        """
        best: Clearing | None = None
        least: tuple[int, ...] = ()
        for machine in self._placer.candidates(part):
            labels = self._placer.labels_of(machine)
            if below is not None and labels >= below:
                break
            elastic, stoppable = self._revocable(machine, execution)
            if not elastic and not (cores and stoppable):
                continue
            left = self._placer.free(machine).tolist()
            missing = [need - have for need, have in zip(part.amounts, left, strict=True)]
            ordered = victims_first(stoppable, self._now_ms, lambda _: False) if cores else []
            found = clearing_of(machine, missing, elastic, ordered)
            if found is None:
                continue
            cost = (found.cost[0], labels, *found.cost[1:])
            if best is None or cost < least:
                best, least = found, cost
                if not found.cores:
                    break
        return best

    def _revocable(
        self, machine: str, beneficiary: Execution | None
    ) -> tuple[list[PlacedComponent], list[Execution]]:
        """Return the components without cover on a machine: elastic, newest first, and cores."""
        elastic: list[PlacedComponent] = []
        cores: list[Execution] = []
        for execution, part, held in self._table.on_machine(machine):
            if part.component.core:
                apart = execution is beneficiary or execution in cores
                if not apart and not _is_covered(part, held):
                    cores.append(execution)
            elif not _is_covered(part, held):
                elastic.append((execution, part, held))
        elastic.sort(key=lambda victim: -victim[2].since_ms)
        return elastic, cores


def _leavers(part: ComponentGroup, over: int) -> list[HeldComponent]:
    """Return the components that leave a group that has too many.

    Without cover the newest loses least; with a pooled promise the oldest has outlived its lease.
    If cover is by machine, components in a slot stay.
    """
    if part.is_covered_anywhere:
        return part.held[:over]
    pairs = zip(part.held, part.cover_flags(), strict=True)
    return [held for held, covered in pairs if not covered][-over:]


def _is_covered(part: ComponentGroup, held: HeldComponent) -> bool:
    if part.component.core and part.is_covered_anywhere:
        return True  # as all others of its group
    return part.covered > 0 and part.cover_flags()[part.held.index(held)]


def _keeps_all(part: ComponentGroup) -> bool:
    """Return whether all components of a group may run: groups that must shrink go first."""
    return len(part.held) <= part.covered + part.granted
