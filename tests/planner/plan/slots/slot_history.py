"""Histories of small Plans whose promises machines keep, and what must hold after every commit.

A history asks a chooser for every number, so that the same code serves tests that draw examples and
the soak that draws from a seed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.files.cluster_file import cluster_from_json
from planner.plan.checkpoint import read_checkpoint, take_checkpoint
from planner.plan.plan import Plan
from planner.plan.records.changes import (
    Admit,
    Advance,
    Cancel,
    Change,
    Close,
    Degrade,
    Prepared,
    Reconfigure,
    Refuse,
    Release,
    Relocate,
    Update,
)
from planner.plan.records.commit_records import CommitRecord
from planner.renegotiation import renegotiation_of
from planner.reservations.reservation import AtomAllocation, Holding
from planner.reservations.rows import split
from planner.reservations.slots import NOWHERE, Slots, slots_of, sort_slots
from planner.reservations.state import LIVE, Transition, may
from planner.validation.document import PlanViolation
from planner.validation.validate import validate
from tests.builders import a_request
from tests.planner.machines.model import DenseRoom, leaves
from tests.planner.plan.plan_json import plan_json
from tests.planner.validation.moved_slots import begun_slots_moved

#: Chooses a whole number from the first to the second, both included.
Chooser = Callable[[int, int], int]

#: What a Plan that has lost machines says of itself until the lost slots are relocated.
TOLD_OF_LOSS = {"capacity", "fit", "machine", "label", "spread"}


def a_small_cluster(choose: Chooser) -> Cluster:
    """Return one to six machines of two kinds in one or two racks; steps of a second."""
    groups: list[dict[str, Any]] = [
        {
            "name": "wide",
            "count": choose(1, 3),
            "resources": {"cpu": 4, "memory": 4},
            "domains": {"rack": "r1"},
        },
        {
            "name": "tall",
            "count": choose(1, 3),
            "resources": {"cpu": 2, "memory": 8},
            "labels": ["x"],
            "domains": {"rack": f"r{choose(1, 2)}"},
        },
    ]
    return cluster_from_json(
        {
            "step": "1s",
            "horizon": f"{choose(16, 48)}s",
            "max_period": "12s",
            "promises": {"level": "placed", "requests_may_choose": ["pooled"]},
            "machines": groups,
        }
    )


def expression(choose: Chooser) -> str:
    """Return a request: one atom, or some under each of the operators."""
    start, length = choose(0, 30), choose(8, 30)
    inner = _inner(choose)
    kind = choose(0, 4)
    if kind == 0:
        return f"every(12, {_atom(choose)})"
    if kind == 1:
        return f"every(12, {_atom(choose)}, times={choose(1, 3)})"
    if kind == 2:
        return f"every(12, {_together(choose)}, times={choose(1, 3)})"
    return f"window({inner}, +{start}, +{start + length})"


def _inner(choose: Chooser) -> str:
    kind = choose(0, 7)
    parts = ", ".join(_atom(choose) for _ in range(choose(2, 3)))
    if kind == 0:
        return f"order({parts})"
    if kind == 1:
        return f"any({parts})"
    if kind == 2:
        return f"all({parts})"
    if kind == 3:
        return f"order({_atom(choose)}, any({parts}))"
    if kind == 4:
        return _together(choose)
    if kind == 5:
        return f"order({_together(choose)}, {_atom(choose)})"
    return _atom(choose)


def _together(choose: Chooser) -> str:
    """Return two or three gangs that run for the same lease, at the same time."""
    lease = choose(1, 4)
    return f"together({', '.join(_gang(choose, lease) for _ in range(choose(2, 3)))})"


def _gang(choose: Chooser, lease: int) -> str:
    count = choose(1, 3)
    return _written(choose, count, count, lease, count * lease)


def _atom(choose: Chooser) -> str:
    """Return a malleable atom or a gang, at times with a label, a spread or a handover."""
    least = choose(1, 3)
    most = least + choose(0, 3)
    lease = choose(1, 4)
    return _written(choose, least, most, lease, lease * least * choose(1, 3))


def _written(choose: Chooser, least: int, most: int, lease: int, work: int) -> str:
    bundle = f"<{choose(1, 3)} cpu, {choose(1, 4)} memory>"
    if not choose(0, 2):
        bundle = f"<{choose(1, 2)} cpu>"
    rest = ""
    if not choose(0, 5):
        rest += ', on="x"'
    if not choose(0, 3):
        rest += f", spread={choose(1, 2)}" + (", by=rack" if not choose(0, 2) else "")
    if not choose(0, 3):
        rest += f", handover={'yes' if choose(0, 1) else 'no'}"
    return f"atom({bundle}, {least}, {most}, {lease}, {work}{rest})"


class SlotHistory:
    """One Plan, what was done to it, and the checks after every commit.

    Parameters
    ----------
    choose
        Makes every choice.
    within
        Whether some requests ask for one rack.
    """

    def __init__(self, choose: Chooser, *, within: bool = True) -> None:
        self.choose, self.within = choose, within
        self.cluster = a_small_cluster(choose)
        self.agent = agent_named("gree-l")
        self.plan = Plan(self.cluster, self.cluster.grid())
        self.records: list[dict[str, Any]] = []
        self.lost = False
        self.number = 0

    def step(self) -> None:
        """Ask one thing of the Plan, or several at once, and check what comes of it."""
        kind = self.choose(0, 9)
        before = plan_json(self.plan)
        if kind == 0:
            changes: list[Change] = [self._own_commit()]
        else:
            changes = [self._change() for _ in range(self.choose(1, 3) if kind < 4 else 1)]
            changes = [one for one in changes if one is not None]
        if not changes:
            return
        atomic = kind == 1
        kinds = (Admit, Update, Cancel, Degrade, Relocate)
        joint = kind == 2 and all(isinstance(one, kinds) for one in changes)
        prepared = self._prepare(changes, atomic=atomic, joint=joint)
        if prepared.record is None:
            return
        self.records.append(json.loads(json.dumps(prepared.record.to_json())))
        self.plan.apply(prepared.record, prepared.takings)
        if isinstance(changes[0], Reconfigure):
            self.lost = True
        self.check(before)

    def _prepare(self, changes: Sequence[Change], *, atomic: bool, joint: bool) -> Prepared:
        """Prepare, and see that the capacity is bit for bit what it was."""
        room = self.plan.room
        tree = room._tree.copy()
        prepared = self.plan.prepare(changes, self.plan.version, atomic=atomic, joint=joint)
        assert self.plan.room is room
        assert np.array_equal(room._tree, tree), "prepare wrote the capacity"
        return prepared

    def check(self, before: Mapping[str, Any]) -> None:
        """Hold the Plan against the validator, a room from scratch, and its copies."""
        plan = self.plan
        document = plan_json(plan)
        where = {"cluster": plan.cluster, "grid": plan.grid}
        faults = validate(document, **where)  # type: ignore[arg-type]
        told = TOLD_OF_LOSS if self.lost else self._told_of_recurrences()
        # Fewer machines than an atom that is spread asks for.
        faults = [one for one in faults if not (self.lost and "spread" in one.detail)]
        faults = [one for one in faults if not (self.lost and self._waits_for_machines(one))]
        wrong = [one for one in faults if one.rule not in told]
        assert not wrong, wrong
        now_s = float(plan.grid.seconds(plan.now))
        moved = begun_slots_moved(before, document, now_s, cluster=plan.cluster)
        assert not moved, moved
        self._check_room()
        again = Plan.replay(
            self.cluster, self.cluster.grid(), map(CommitRecord.from_json, self.records)
        )
        assert plan_json(again) == document
        assert np.array_equal(leaves(again.room), leaves(plan.room))
        restored = read_checkpoint(take_checkpoint(plan).encode())
        assert plan_json(restored) == document
        assert np.array_equal(leaves(restored.room), leaves(plan.room))

    def _waits_for_machines(self, fault: PlanViolation) -> bool:
        """Return whether no occurrence was added to a recurrence that the cluster has no rack for.

        Such a request no longer compiles.
        """
        held = self.plan.reservation(fault.reservation)
        compiles = held is None or self._compiled(held.id, held.expression) is not None
        return fault.rule == "oracle" and not compiles

    def _told_of_recurrences(self) -> set[str]:
        """Occurrences that a later horizon brought in wait for machines."""
        endless = any(
            atom.slots is not None and bool((atom.slots[:, 3] == NOWHERE).any())
            for one in self.plan.reservations()
            for atom in one.atoms
        )
        return {"machine"} if endless else set()

    def _check_room(self) -> None:
        plan = self.plan
        dense = DenseRoom(plan.cluster, plan.ledger.first, plan.grid.horizon)
        for one in plan.reservations():
            for atom in one.atoms:
                if atom.slots is not None:
                    dense.take(atom.slots, atom.bundle, 1)
        found = leaves(plan.room)
        assert np.array_equal(_by_name(plan, found, dense), dense.left), "the room is not the slots"

    def _own_commit(self) -> Change:
        plan = self.plan
        if self.choose(0, 3):
            step = min(plan.now + self.choose(1, 6), plan.grid.horizon - 1)
            return Advance(step, plan.grid.horizon + self.choose(0, 8))
        cluster = plan.cluster
        from planner.cluster.cluster import Outage

        groups = [replace(g, count=max(1, self.choose(g.count - 1, 3))) for g in cluster.machines]
        start = (plan.now + self.choose(0, 10)) * 1000
        outages = [
            Outage(g.name, (g.count - 1,), start, start + 1000 * self.choose(1, 9))
            for g in groups
            if not self.choose(0, 2)
        ]
        return Reconfigure(replace(cluster, machines=tuple(groups), outages=tuple(outages)))

    def _change(self) -> Change | None:
        kind = self.choose(0, 11)
        if kind <= 5:
            return self._admit()
        live = [i for i in range(len(self.plan.table)) if self.plan.table.state(i) in LIVE]
        if not live:
            return self._admit()
        number = live[self.choose(0, len(live) - 1)]
        name = self.plan.table.id_of(number)
        revision = int(self.plan.table.meta[number]["revision"])
        if kind <= 7:
            return self._update(name, revision)
        if kind == 8:
            return Cancel(name) if self.choose(0, 1) else Close(name)
        if kind == 9:
            return self._degrade(number, name, revision)
        if kind == 10:
            return self._release(number, name, revision)
        return self._relocate(number, name, revision)

    def _request(self, name: str, source: str) -> Any:
        plan = self.plan
        asked = a_request(name, source).submitted(int(plan.grid.seconds(plan.now)))
        return asked.on(plan.cluster, plan.grid)

    def _admit(self) -> Change | None:
        self.number += 1
        name, source = f"r{self.number}", self._source()
        request = self._compiled(name, source)
        if request is None:
            return None
        result = self.agent.plan([request], self.plan.view(), Limits())[0]
        if result.code is not None:
            return Refuse(request, result.code, result.detail, result.binding)
        return Admit(request, result, self.agent.name, planner=self.agent)

    def _source(self) -> str:
        """Return a request, now and then with each of its atoms in one rack."""
        source = expression(self.choose)
        if not self.within or self.choose(0, 2):
            return source
        return re.sub(r"(atom\([^)]*)\)", r"\1, within=rack)", source)

    def _compiled(self, name: str, source: str) -> Any:
        from rdl.errors import RdlError

        try:
            return self._request(name, source)
        except RdlError:
            return None

    def _update(self, name: str, revision: int) -> Change | None:
        known = self.plan.reservation(name)
        assert known is not None
        source = known.expression if self.choose(0, 1) else self._source()
        from rdl.errors import RdlError

        try:
            asked = a_request(name, source).submitted(known.submitted_ms // 1000)
            request = asked.on(self.plan.cluster, self.plan.grid)
            update = renegotiation_of(self.plan, name, request)
            result = update.place(self.agent, Limits())
        except (RdlError, ValueError):
            return None
        if not result.placed:
            return None
        planner = update.planner(self.agent) if self.choose(0, 3) else None
        return Update(name, revision, request, result, self.agent.name, planner=planner)

    def _degrade(self, number: int, name: str, revision: int) -> Change | None:
        if not may(self.plan.table.state(number), Transition.DEGRADE):
            return None
        holding = self.plan.table.holding(number)
        cut = self.plan.now + self.choose(0, 12)
        atoms = []
        for atom in holding.atoms:
            for path, rows in atom.occurrences():
                past = split(rows, cut)[0]
                alone = AtomAllocation(path, atom.bundle, atom.label, past, rule=atom.rule)
                atoms.append(alone)
        held = [atom for atom in atoms if len(atom.rows)]
        finish = max((int(atom.rows[-1, 1]) for atom in held), default=cut)
        return Degrade(name, revision, Holding(tuple(held), min(holding.begin, finish), finish), "")

    def _release(self, number: int, name: str, revision: int) -> Change | None:
        holding = self.plan.table.holding(number)
        if not holding.atoms:
            return None
        atom = holding.atoms[self.choose(0, len(holding.atoms) - 1)]
        rest = split(atom.rows, self.plan.now + self.choose(0, 6))[1]
        if self.choose(0, 1) and len(rest):
            rest = rest.copy()
            rest[:, 2] = np.maximum(1, rest[:, 2] - 1)
        return Release(name, revision, ((atom.path, rest),)) if len(rest) else None

    def _relocate(self, number: int, name: str, revision: int) -> Change | None:
        """Give machines to bundles that have none and have not begun, or any to any."""
        holding, room, now = self.plan.table.holding(number), self.plan.room.copy(), self.plan.now
        slots: list[Slots] = []
        for atom in holding.atoms:
            if atom.slots is None:
                continue
            if len(atom.slots) and not self.choose(0, 1):
                slots.append(self._tampered(atom.slots))
                continue
            lost = (atom.slots[:, 3] == NOWHERE) & (atom.slots[:, 0] >= now)
            stays = atom.slots[~lost]
            found, rest = room.lay_some(
                atom.slots[lost][:, :3], atom.bundle, atom.label, atom.rule, stays
            )
            left = np.concatenate([rest, np.full((len(rest), 1), NOWHERE)], axis=1)
            slots.append(sort_slots(np.concatenate([stays, found, left])))
        return Relocate(name, revision, tuple(slots))

    def _tampered(self, slots: Slots) -> Slots:
        """Put some bundles of a slot on another machine from some step on, right or wrong."""
        entries = slots.tolist()
        start, end, bundles, machine = entries.pop(self.choose(0, len(entries) - 1))
        step, count = self.choose(start, end - 1), self.choose(1, bundles)
        other = self.choose(NOWHERE, self.plan.room.machines - 1)
        entries.append([start, end, bundles - count, machine])
        entries += [[start, step, count, machine], [step, end, count, other]]
        return sort_slots(slots_of([one for one in entries if one[0] < one[1] and one[2]]))


def _by_name(plan: Plan, found: NDArray[np.int64], dense: DenseRoom) -> NDArray[np.int64]:
    """Return what a room knows in the model's order of resources."""
    return found[:, :, : len(dense.names)]
