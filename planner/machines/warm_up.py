"""Load the compiled loops of the machine room before the first request needs them."""

from __future__ import annotations

from functools import cache

import numpy as np

from planner.cluster.cluster import Cluster, MachineGroup
from planner.machines.room import MachineRoom
from planner.machines.slot_atom import SlotAtom
from planner.reservations.slots import ANYWHERE, MachineRule
from rdl.resources import CPU, Resources

_STEPS = 24


@cache
def load_machine_kernels() -> None:
    """Place, take, search and roll on in a tiny machine room, once per process.

    Loads the loops from numba's cache in under a second; compiles those not yet cached, which takes
    half a minute.
    """
    group = MachineGroup("m", 2, Resources.of({CPU: 4000}))
    cluster = Cluster(60_000, _STEPS * 60_000, (group,))
    room, bundle = MachineRoom(cluster, cluster.grid(), 0), Resources.of({CPU: 3000})
    pieces = np.array([[0, 4, 2]], dtype=np.int64)
    slots = room.lay(pieces, bundle, None, MachineRule(spread=1))
    assert slots is not None
    room.take(slots, bundle, -1)
    room.fits(slots, bundle)
    room.stand(pieces, bundle, None, MachineRule(spread=1))
    room.take(slots, bundle, -1)
    room.lay_some(pieces, bundle, None, ANYWHERE, slots)
    room.lay_in_parts(pieces, bundle, None, ANYWHERE, 2)
    room.most_held(0, 4, 2, bundle, None)
    kinds = [(bundle, None, ANYWHERE)]
    room.lay_kinds(np.array([[0, 4, 1, 0, 0]], dtype=np.int64), kinds, keeps=True)
    from planner.machines.kernels.colouring import Intervals, colour
    from planner.machines.kernels.moving import stand_alone

    ones = np.ones(1, dtype=np.int64)
    colour(Intervals(0 * ones, ones, -ones, ones, ones < 0), np.array([0, 1], dtype=np.int64))

    stand_alone(np.zeros(1, dtype=np.int64), np.array([[0, 4, 1, 0]], dtype=np.int64))
    room.count(0, 4, bundle, ANYWHERE, None, 2)
    free = np.full(_STEPS - 4, 8, dtype=np.int64)
    for least, most, handover in ((1, 2, True), (2, 2, False), (2, 4, True)):
        rule = MachineRule(handover=handover)
        atom = SlotAtom(4, _STEPS, least, most, 1, 2, 8 * least, bundle, None, rule)
        room.search(atom, free, 4, 4)
    room.advance(cluster.grid().with_horizon(_STEPS + 1), 1)
