"""The search for free runs of machines, whose blocks of time are looked at first."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.cluster.cluster import Cluster, MachineGroup
from planner.machines.room import MachineRoom
from planner.machines.slot_atom import SlotAtom
from planner.reservations.slots import slots_of
from tests.planner.machines.model import CPU, STEP_MS, DenseRoom, intervals

STEPS = 64
MACHINES = 3


@given(st.integers(0, STEPS), st.integers(1, 24), st.booleans(), st.data())
def test_a_free_run_of_a_lease_is_found_wherever_it_is(
    first: int, lease: int, early: bool, data: st.DataObject
) -> None:
    """With one try for a rectangle, runs find a lease exactly where some machine is free for one.

    The capacity has moved on by `first` steps, so that its ring begins again somewhere in the
    window.
    """
    group = MachineGroup("m", MACHINES, CPU)
    cluster = Cluster(STEP_MS, STEPS * STEP_MS, (group,))
    room = MachineRoom(cluster, cluster.grid(), 0)
    room.advance(cluster.grid().with_horizon(STEPS + first), first)
    dense = DenseRoom(cluster, first, STEPS + first)
    for _ in range(data.draw(st.integers(0, 12))):
        start, end = data.draw(intervals(first, STEPS + first))
        slot = slots_of([start, end, 1, data.draw(st.integers(0, MACHINES - 1))])
        if room.fits(slot, CPU):
            room.take(slot, CPU, 1)
            dense.take(slot, CPU, 1)
    lo, hi = data.draw(intervals(first, STEPS + first))
    free = dense.left[:, lo - first : hi - first, 0] > 0
    starts = range(hi - lo - lease + 1)
    there = any(free[:, at : at + lease].all(axis=1).any() for at in starts)
    atom = SlotAtom(lo, hi, 1, 1, 1, lease, lease, CPU, early=early)
    slots = room.search(atom, np.ones(hi - lo, dtype=np.int64), 1, 1)
    assert (slots is not None) == there
    if slots is not None:
        ((start, end, bundles, machine),) = slots.tolist()
        assert (end - start, bundles) == (lease, 1)
        assert free[machine, start - lo : end - lo].all()
