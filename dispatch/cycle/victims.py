"""Victims: which components stop when the Plan needs their capacity (steps 1, 5 and 6 of a cycle).

Elastic components stop before cores; cores that have least to lose stop first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dispatch.executions.execution import Execution, PlacedComponent
from dispatch.machines.machine_pool import Vector


def expected_end_ms(execution: Execution) -> int | None:
    """Return when an execution ends if its whole request is granted, or None."""
    if execution.started_ms is None or execution.application.size_ms is None:
        return None
    return execution.started_ms + execution.application.size_ms


def victims_first(
    executions: Iterable[Execution], needed_ms: int, spared: Callable[[Execution], bool]
) -> list[Execution]:
    """Return executions in the order in which their cores stop: not yet started, then newest.

    After them come those expected to end before the capacity is needed, and last those in `spared`
    (an entitlement is about to cover them).
    """

    def key(execution: Execution) -> tuple[bool, bool, bool, int, int]:
        end = expected_end_ms(execution)
        safe = end is not None and end <= needed_ms
        started = execution.started_ms or 0
        running = execution.started_ms is not None
        return running, spared(execution), safe, -started, -execution.number

    return sorted(executions, key=key)


def choose_victims(
    order: Sequence[Execution],
    excess: Sequence[int],
    helps: Callable[[Execution], bool] = lambda _: True,
) -> list[Execution]:
    """Return the executions whose cores are stopped, in order, until `excess` is covered.

    An execution is skipped if it frees nothing that is short, frees it where it does not help, or
    is unnecessary given later victims. `excess` may remain partly uncovered.
    """
    short = list(excess)
    chosen: list[Execution] = []
    for execution in order:
        if all(amount <= 0 for amount in short):
            break
        frees = any(have and need > 0 for have, need in zip(execution.core, short, strict=True))
        if frees and helps(execution):
            chosen.append(execution)
            _add(short, execution.core, -1)
    for execution in reversed(chosen[:-1]):
        _add(short, execution.core, 1)
        if all(amount <= 0 for amount in short):
            chosen.remove(execution)
        else:
            _add(short, execution.core, -1)
    return chosen


def _add(into: list[int], amounts: Vector, sign: int) -> None:
    for kind, amount in enumerate(amounts):
        into[kind] += sign * amount


@dataclass(frozen=True, slots=True)
class Clearing:
    """The components that must leave a machine so that another fits; the least cost is best.

    Attributes
    ----------
    machine
        Its name.
    elastic, cores
        Elastic components that leave, and executions whose cores are stopped.
    cost
        Order by number of stopped executions, then by age (newest first), then by components.
    """

    machine: str
    elastic: tuple[PlacedComponent, ...]
    cores: tuple[Execution, ...]
    cost: tuple[int, int, int]


def clearing_of(
    machine: str,
    missing: Sequence[int],
    elastic: Sequence[PlacedComponent],
    cores: Sequence[Execution],
) -> Clearing | None:
    """Return the fewest components that must leave a machine, in the given orders, or None.

    Parameters
    ----------
    missing
        Amounts that the component needs beyond the free capacity of the machine.
    elastic, cores
        Components and executions that may leave, in order.
    """
    short = list(missing)
    leaving: list[PlacedComponent] = []
    stopped: list[Execution] = []
    for victim in elastic:
        if _useful(victim[1].amounts, short):
            leaving.append(victim)
            _add(short, victim[1].amounts, -1)
    for execution in cores:
        here = _held_on(machine, execution, len(short))
        if _useful(here, short):
            stopped.append(execution)
            _add(short, here, -1)
    if any(amount > 0 for amount in short):
        return None
    for victim in list(leaving):
        if victim[0] in stopped:
            leaving.remove(victim)
            continue
        _add(short, victim[1].amounts, 1)
        if any(amount > 0 for amount in short):
            _add(short, victim[1].amounts, -1)
        else:
            leaving.remove(victim)
    oldest = min((execution.started_ms or 0 for execution in stopped), default=0)
    cost = (len(stopped), -oldest, len(leaving))
    return Clearing(machine, tuple(leaving), tuple(stopped), cost)


def _useful(amounts: Sequence[int], short: Sequence[int]) -> bool:
    return any(have and need > 0 for have, need in zip(amounts, short, strict=True))


def _held_on(machine: str, execution: Execution, kinds: int) -> Vector:
    """Return the amounts of an execution's core components on one machine."""
    amounts = [0] * kinds
    for part in execution.parts:
        if part.component.core:
            count = sum(held.machine == machine for held in part.held)
            for kind, amount in enumerate(part.amounts):
                amounts[kind] += count * amount
    return tuple(amounts)
