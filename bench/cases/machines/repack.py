"""`repack`: 5 % of 4,000 machines are lost under 100,000 slots, and all of them get others.

Reservations of one or more bundles of a few shapes are given slots by the machine room, at random
times of a day of minutes, until the stated load. Then machines drawn at random are gone from a step
in the middle of the day on. Told: processor seconds of the relocation, of the capacity it
works on, of looking for what is lost, and of the joint commit; how many slots were lost, and how
many bundles then had no machine, for plain best fit, for the budget of ejections the service has,
and for a long search.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.adaptation.lost_slots import lost_slots
from planner.adaptation.relocation import (
    EJECTIONS,
    Relocation,
    Relocator,
    relocate,
    room_with,
    slots_on,
)
from planner.cluster.cluster import Cluster, MachineGroup, Outage
from planner.plan.plan import Plan
from planner.plan.records.changes import Advance, Change, Reconfigure
from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.reservation_records import Admitted
from planner.promise import PromiseLevel
from planner.reservations.reservation import AtomAllocation, Holding, RequestDetails
from planner.reservations.rows import add_up
from planner.reservations.slots import ANYWHERE, NOWHERE
from rdl.resources import Resources

NAME = "repack"

STEPS: Final = 1440
NOW: Final = 720
LOST: Final = 0.05
SEEDS: Final = (1, 2)

#: Cores and GiB of a bundle.
SHAPES: Final = ((1, 4), (2, 4), (2, 8), (4, 8), (4, 16), (6, 24), (8, 32), (12, 32))

#: Ejections of the long search, which takes some seconds.
LONG: Final = 20_000


def run(small: bool) -> dict[str, object]:
    """Lose the machines once a seed and load, and relocate."""
    machines, slots = (100, 2_500) if small else (4_000, 100_000)
    loads = (0.6,) if small else (0.25, 0.45, 0.52)
    relocate(filled(4, 20, 0.5, 0))  # compiled
    figures = {
        f"load_{load}_seed_{seed}": scene(machines, slots, load, seed)
        for load in loads
        for seed in (SEEDS[:1] if small else SEEDS)
    }
    params = {"machines": machines, "steps": STEPS, "slots": slots, "lost": LOST, "now": NOW}
    return {"params": params, "figures": figures}


def scene(machines: int, slots: int, load: float, seed: int) -> dict[str, object]:
    """Return the figures of one loss."""
    plan = filled(machines, slots, load, seed)
    rng = np.random.default_rng([seed, 5])
    gone = rng.choice(machines, size=max(1, round(LOST * machines)), replace=False)
    outage = Outage("m", tuple(sorted(gone.tolist())), NOW * 60_000, STEPS * 60_000, "loss")
    _commit(plan, Advance(NOW))
    _commit(plan, Reconfigure(replace(plan.cluster, outages=(outage,))))
    held = slots_on(plan)
    began = time.process_time()
    lost = lost_slots(held, plan.cluster, plan.grid, plan.now)
    looked = time.process_time()
    room = room_with(held, plan)
    made = time.process_time()
    none, none_s = _timed(plan, 0)
    ours = Relocator(plan, held, room.copy())
    start = time.process_time()
    found = ours.run(EJECTIONS)
    ours_s = time.process_time() - start
    long, long_s = _timed(plan, LONG)
    commit_s = _committed(plan, found)
    bundles = held.slots[:, 2]
    return {
        "slots": len(bundles),
        "load_from_now": round(_load(plan), 3),
        "lost_slots": len(lost),
        "lost_bundles": int(bundles[lost].sum()),
        "look_s": round(looked - began, 3),
        "room_s": round(made - looked, 3),
        "relocation_s": round(ours_s, 3),
        "changed_reservations": len(found.held),
        "commit_s": round(commit_s, 3),
        "no_machine_best_fit": unplaced_bundles(none),
        "no_machine": unplaced_bundles(found),
        "no_machine_long": unplaced_bundles(long),
        "best_fit_s": round(none_s, 3),
        "long_s": round(long_s, 3),
    }


def _timed(plan: Plan, budget: int) -> tuple[Relocation, float]:
    held = slots_on(plan)
    relocator = Relocator(plan, held, room_with(held, plan))
    start = time.process_time()
    found = relocator.run(budget)
    return found, time.process_time() - start


def unplaced_bundles(found: Relocation) -> int:
    """Return how many bundles have no machine after a relocation."""
    return sum(
        int(atom.slots[atom.slots[:, 3] == NOWHERE, 2].sum())
        for holding in found.held.values()
        for atom in holding.atoms
        if atom.slots is not None
    )


def _committed(plan: Plan, found: Relocation) -> float:
    """Return the seconds that the joint commit of the changes takes to be judged."""
    changes: Sequence[Change] = found.changes(plan)
    _ = plan.room
    start = time.process_time()
    prepared = plan.prepare(changes, plan.version, joint=True)
    if changes and prepared.record is None:
        raise AssertionError(f"the Plan does not accept it: {prepared.conflicts[:1]}")
    return time.process_time() - start


def _commit(plan: Plan, change: Change) -> None:
    prepared = plan.prepare([change], plan.version)
    if prepared.record is None:
        raise AssertionError(f"the Plan does not accept it: {prepared.conflicts[:1]}")
    plan.apply(prepared.record)


def _load(plan: Plan) -> float:
    """Return the part of the cores from now on that slots hold."""
    held = slots_on(plan)
    cores = np.array([bundle["cpu"] for bundle, _, _ in held.kinds], dtype=np.int64)
    steps = held.slots[:, 1] - np.maximum(held.slots[:, 0], plan.now)
    used = int((steps * held.slots[:, 2] * cores[held.kind]).sum())
    return used / (plan.cluster.nominal["cpu"] * (STEPS - plan.now))


def filled(machines: int, slots: int, load: float, seed: int) -> Plan:
    """Return a Plan with about this many slots, laid by best fit, and so much of its cores held."""
    shape = Resources.of({"cpu": 32_000, "memory": 128 * 2**30})
    group = MachineGroup("m", machines, shape)
    cluster = Cluster(60_000, STEPS * 60_000, (group,), promise=PromiseLevel.PLACED)
    plan = Plan(cluster, cluster.grid())
    plan.apply(CommitRecord(1, 0, tuple(_admissions(plan, slots, load, seed))))
    return plan


def _admissions(plan: Plan, slots: int, load: float, seed: int) -> list[Admitted]:
    """Return admissions of one atom each, as a log would bring them."""
    rng = np.random.default_rng(seed)
    room, cluster = plan.room.copy(), plan.cluster
    mean = sum(cores for cores, _ in SHAPES) / len(SHAPES)
    length = load * cluster.nominal["cpu"] / 1000 * STEPS / (slots * mean)
    found: list[Admitted] = []
    total = missed = 0
    while total < slots and missed < slots:
        cores, memory = SHAPES[int(rng.integers(len(SHAPES)))]
        bundle = Resources.of({"cpu": cores * 1000, "memory": memory * 2**30})
        steps = int(np.clip(rng.exponential(length), 5, STEPS - 1))
        start, height = int(rng.integers(0, STEPS - steps)), int(rng.integers(1, 9))
        piece: NDArray[np.int64] = np.array([[start, start + steps, height]], dtype=np.int64)
        laid = room.lay(piece, bundle, None, ANYWHERE)
        if laid is None:
            missed += 1
            continue
        total += len(laid)
        found.append(_admitted(f"r{len(found)}", bundle, laid))
    return found


def _admitted(id_: str, bundle: Resources, laid: NDArray[np.int64]) -> Admitted:
    rows = add_up(laid[:, :3])
    atom = AtomAllocation("", bundle, None, rows, slots=laid)
    holding = Holding((atom,), int(rows[0, 0]), int(rows[-1, 1]))
    details = RequestDetails("atom(<1 cpu>, 1, 1, 1, 1)")
    return Admitted(id_, "t", "default", 0, 1.0, 0, "bench", details, holding, PromiseLevel.PLACED)
