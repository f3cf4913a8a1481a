"""The parts of the Plan that become reservations in Slurm: runs of slots, and pieces of runs.

A *run* is a machine that a reservation of the Plan has without a break; adjacent slots are merged.
A *piece* is the runs of one reservation with the same start and end: one reservation in Slurm.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from planner.reservations.slots import NOWHERE


@dataclass(frozen=True, slots=True, order=True)
class PlanPiece:
    """Nodes of one reservation of the Plan, from one Unix time to another."""

    start_s: int
    end_s: int
    reservation: str
    nodes: tuple[str, ...]


def pieces_of(
    plan: Plan, now_ms: int, until_ms: int, origin_ms: int, nodes: Mapping[str, str]
) -> list[PlanPiece]:
    """Return the pieces that are active or begin between two instants, by start.

    Parameters
    ----------
    plan
        The Plan, which is only read; pooled reservations have no pieces.
    now_ms, until_ms
        From the Plan's origin.
    origin_ms
        The origin as Unix ms.
    nodes
        Slurm's name of each machine.
    """
    step_ms = plan.grid.step_ms
    step, last = now_ms // step_ms, until_ms // step_ms
    slots, owner = plan.table.slots_after(step)
    near = (slots[:, 0] <= last) & (slots[:, 3] != NOWHERE)
    slots, owner = slots[near], owner[near]
    order = np.lexsort((slots[:, 0], slots[:, 3], owner))
    found: dict[tuple[int, int, int], set[str]] = {}
    names = tuple(plan.table.machines)
    run: tuple[int, int, int, int] | None = None

    def close(one: tuple[int, int, int, int]) -> None:
        number, machine, start, end = one
        if names[machine] in nodes:
            found.setdefault((number, start, end), set()).add(nodes[names[machine]])

    for index in order.tolist():
        start, end, _, machine = slots[index].tolist()
        number = int(owner[index])
        if run is not None and run[:2] == (number, machine) and start <= run[3]:
            run = (number, machine, run[2], max(run[3], end))
            continue
        if run is not None:
            close(run)
        run = (number, machine, start, end)
    if run is not None:
        close(run)

    def unix_s(at: int) -> int:
        return (origin_ms + at * step_ms) // 1000

    pieces = [
        PlanPiece(unix_s(start), unix_s(end), plan.table.id_of(number), tuple(sorted(held)))
        for (number, start, end), held in found.items()
    ]
    return sorted(pieces)


def nodes_by_atom(
    plan: Plan, ids: Iterable[str], now_ms: int, nodes: Mapping[str, str]
) -> dict[str, dict[int, frozenset[str]]]:
    """Return the nodes that each atom of some reservations has from now on, by its index.

    Parameters
    ----------
    plan
        The Plan, which is only read.
    ids
        Reservations; others than those of the Plan are left out.
    now_ms
        From the Plan's origin.
    nodes
        Slurm's name of each machine.
    """
    table, step = plan.table, now_ms // plan.grid.step_ms
    numbers = [number for id_ in ids if (number := table.number_of(id_)) is not None]
    standing = table.standing_slots(np.array(numbers, dtype=np.int64))
    found: dict[str, dict[int, frozenset[str]]] = {}
    near = (standing.slots[:, 1] > step) & (standing.slots[:, 3] != NOWHERE)
    for index in np.flatnonzero(near).tolist():
        node = nodes.get(table.machines[int(standing.slots[index, 3])])
        atoms = found.setdefault(table.id_of(int(standing.number[index])), {})
        atom = int(standing.atom[index])
        atoms[atom] = atoms.get(atom, frozenset()) | ({node} if node else set())
    return found


def machineless_at(plan: Plan, now_ms: int, until_ms: int) -> frozenset[str]:
    """Return the pooled reservations with an allocation between two instants.

    Parameters
    ----------
    plan
        The Plan, which is only read.
    now_ms, until_ms
        From the Plan's origin.
    """
    step_ms, table = plan.grid.step_ms, plan.table
    pooled = table.numbers_of(PromiseLevel.POOLED)
    found = table.holding_between(pooled, now_ms // step_ms, until_ms // step_ms + 1)
    return frozenset(table.id_of(number) for number in found.tolist())


def word_of(reservation: str) -> str:
    """Return a reservation's id as a valid name in Slurm; different ids have different names."""
    plain = re.sub(r"[^A-Za-z0-9.-]", "-", reservation)[:64]
    if plain == reservation:
        return plain
    return f"{plain}.{hashlib.sha256(reservation.encode()).hexdigest()[:8]}"
