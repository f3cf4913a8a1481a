"""A world of slots: reservations that are promised machines, and what must hold of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dispatch.cycle.cycle import Cycle
from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Advance, Change, Relocate
from planner.promise import PromiseLevel
from planner.reservations.slots import NOWHERE, Slots, sort_slots, split_slots
from tests.builders import a_request, commit
from tests.dispatch.cycle.slot_account import SlotAccount, waiting_slots
from tests.dispatch.cycle.world import World


def promised_machines(cluster: Cluster) -> Cluster:
    """Return a cluster that promises machines."""
    return replace(cluster, promise=PromiseLevel.PLACED)


def reserve(plan: Plan, id_: str, source: str, promise: PromiseLevel | None = None) -> bool:
    """Ask for a reservation; return whether it was granted."""
    agent = agent_named("gree-l")
    request = a_request(id_, source).on(plan.cluster)
    if promise is not None:
        request = replace(request, promise=promise)
    result = agent.plan([request], plan.view(), Limits())[0]
    if result.placed:
        commit(plan, Admit(request, result, agent.name, planner=agent))
    return plan.reservation(id_) is not None


def slots_of(plan: Plan, id_: str) -> list[list[int]]:
    """Return the slots of a reservation's first atom."""
    reservation = plan.reservation(id_)
    assert reservation is not None
    assert reservation.atoms[0].slots is not None
    found: list[list[int]] = reservation.atoms[0].slots.tolist()
    return found


def relocate(plan: Plan, id_: str, from_step: int, machines: dict[int, int]) -> Change:
    """Return the change that gives slots from a step on other machines, by number."""
    number = plan.table.number_of(id_)
    assert number is not None
    slots: list[Slots | None] = []
    for atom in plan.table.holding(number).atoms:
        assert atom.slots is not None
        past, rest = split_slots(atom.slots, from_step)
        rest[:, 3] = [machines.get(one, one) for one in rest[:, 3].tolist()]
        slots.append(sort_slots(np.concatenate([past, rest])))
    revision = int(plan.table.meta[number]["revision"])
    return Relocate(id_, revision, tuple(slots))


class SlotWorld(World):
    """A world that advances its Plan, and checks at every tick that slots are kept."""

    def __init__(self, cluster: Cluster, plan: Plan, **rest: Any) -> None:
        super().__init__(cluster, plan, **rest)
        self.slots = SlotAccount(tick_ms=1000)

    def tick(self, at_s: float) -> Cycle:
        """Move to an instant."""
        step = round(at_s * 1000) // self.plan.grid.step_ms
        if step > self.plan.now:
            commit(self.plan, Advance(step), at_ms=round(at_s * 1000))
        cycle = super().tick(at_s)
        waiting = waiting_slots(self.directive, self.table)
        self.slots.observe(self.directive, waiting, self.pool.down)
        self._check_places()
        return cycle

    def _check_places(self) -> None:
        """What counts as covered stands on a machine of a slot that holds now, within its room."""
        step = self.directive.at_ms // self.plan.grid.step_ms
        for reservation in self.plan.reservations():
            if reservation.promise is not PromiseLevel.PLACED:
                continue
            room: dict[str, int] = {}
            for atom in reservation.atoms:
                assert atom.slots is not None
                for start, end, bundles, machine in atom.slots.tolist():
                    if start <= step < end and machine != NOWHERE:
                        name = reservation.machines[machine]
                        room[name] = room.get(name, 0) + bundles * atom.bundle["cpu"]
            for execution in self.table.of_reservation(reservation.id):
                for part in execution.parts:
                    for held, covered in zip(part.held, part.cover_flags(), strict=True):
                        if covered:
                            left = room.get(held.machine, 0) - part.component.resources["cpu"]
                            assert left >= 0, "what is covered stands in a slot of its own"
                            room[held.machine] = left


def a_slot_world(cluster: Cluster, sources: Sequence[str], **rest: Any) -> SlotWorld:
    """Return a world whose Plan holds requests r0, r1, ... on machines."""
    plan = Plan(promised_machines(cluster), cluster.grid())
    for number, source in enumerate(sources):
        assert reserve(plan, f"r{number}", source), source
    return SlotWorld(plan.cluster, plan, **rest)
