"""What a machine room knows, against one dense array."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.cluster.cluster import Cluster, MachineGroup, Outage
from planner.machines.room import MachineRoom
from planner.reservations.slots import ANYWHERE, MachineRule
from rdl.resources import Resources
from tests.planner.machines.model import (
    STEP_MS,
    DenseRoom,
    bundles,
    clusters,
    intervals,
    labels,
    leaves,
    machines_with,
    rules,
    slots_on,
    values_of,
)

STEPS = 23
CPU = Resources.of({"cpu": 1})


def _cluster(count: int, cpu: int = 4, steps: int = STEPS) -> Cluster:
    return Cluster(
        STEP_MS, steps * STEP_MS, (MachineGroup("m", count, Resources.of({"cpu": cpu})),)
    )


def _same(room: MachineRoom, dense: DenseRoom) -> bool:
    return bool(np.array_equal(leaves(room), dense.left))


@given(clusters(STEPS, 70), st.integers(0, STEPS - 1), st.data())
def test_a_room_is_capacity_less_outages_and_slots(
    cluster: Cluster, first: int, data: st.DataObject
) -> None:
    """After any takes, returns and moves in time a room is what the dense array is."""
    grid = cluster.grid()
    room, dense = MachineRoom(cluster, grid, first), DenseRoom(cluster, first, STEPS)
    assert room.machines == len(dense.left)
    assert _same(room, dense)
    horizon = STEPS
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()):
            bundle, slots = data.draw(bundles()), data.draw(slots_on(room.machines, horizon))
            sign = data.draw(st.sampled_from([1, 1, -1]))
            room.take(slots, bundle, sign)
            dense.take(slots, bundle, sign)
        else:
            horizon += data.draw(st.sampled_from([0, 1, 2, 40]))
            first = data.draw(st.integers(first, horizon - 1))
            room.advance(grid.with_horizon(horizon), first)
            dense.advance(first, horizon)
        assert _same(room, dense)


@given(clusters(STEPS), st.data())
def test_fits_counts_slots_of_one_machine_together(cluster: Cluster, data: st.DataObject) -> None:
    """Slots fit exactly when the dense array, once they are taken, is not below zero there."""
    room, dense = MachineRoom(cluster, cluster.grid(), 0), DenseRoom(cluster, 0, STEPS)
    bundle, asked = data.draw(bundles()), data.draw(bundles())
    before, slots = (data.draw(slots_on(room.machines, STEPS, most)) for most in (3, 6))
    room.take(before, bundle, 1)
    dense.take(before, bundle, 1)
    table = leaves(room)
    fits = room.fits(slots, asked)
    after = dense.left.copy()
    dense.take(slots, asked, 1)
    touched = dense.left != after
    known = all(name in cluster.resources for name in asked)
    on_machines = bool(np.any(slots[:, 3] >= 0))
    assert fits == (not np.any(dense.left[touched] < 0) and (known or not on_machines))
    assert np.array_equal(leaves(room), table)


@given(clusters(STEPS, 70), bundles(), labels(), rules(), intervals(0, STEPS), st.data())
def test_count_is_the_sum_of_what_machines_hold(
    cluster: Cluster,
    bundle: Resources,
    label: str | None,
    rule: MachineRule,
    interval: tuple[int, int],
    data: st.DataObject,
) -> None:
    """Each machine holds its least over the interval, each domain at most the spread."""
    room, dense = MachineRoom(cluster, cluster.grid(), 0), DenseRoom(cluster, 0, STEPS)
    slots = data.draw(slots_on(room.machines, STEPS))
    room.take(slots, CPU, 1)
    dense.take(slots, CPU, 1)
    expected = dense.count(*interval, bundle, label, rule)
    assert room.count(*interval, bundle, rule, label, 10_000) == expected
    most = data.draw(st.integers(0, 20))
    assert room.count(*interval, bundle, rule, label, most) == min(most, expected)


@given(
    clusters(STEPS, 70),
    bundles(),
    labels(),
    st.sampled_from([None, "rack"]),
    intervals(0, STEPS),
    st.integers(1, 9),
    st.data(),
)
def test_the_most_held_is_what_each_machine_holds_for_a_lease(
    cluster: Cluster,
    bundle: Resources,
    label: str | None,
    within: str | None,
    interval: tuple[int, int],
    lease: int,
    data: st.DataObject,
) -> None:
    """At each step: over machines, the most over all leases inside the interval that hold it.

    Within a rack, of the rack that holds most there.
    """
    room, dense = MachineRoom(cluster, cluster.grid(), 0), DenseRoom(cluster, 0, STEPS)
    slots = data.draw(slots_on(room.machines, STEPS))
    room.take(slots, CPU, 1)
    dense.take(slots, CPU, 1)
    start, end = interval
    values = values_of(cluster, within)
    racks = {*values} - ({None} if within is not None else set())
    sums = {value: np.zeros(end - start, dtype=np.int64) for value in racks}
    for machine in machines_with(cluster, label):
        own = np.zeros(end - start, dtype=np.int64)
        for at in range(start, end - lease + 1):
            part = own[at - start : at - start + lease]
            np.maximum(part, dense.holds(machine, at, at + lease, bundle), out=part)
        if values[machine] in sums:
            sums[values[machine]] += own
    most = np.max([np.zeros(end - start, dtype=np.int64), *sums.values()], axis=0)
    assert np.array_equal(room.most_held(start, end, lease, bundle, label, within), most)


def test_a_copy_changes_alone() -> None:
    """Neither a room nor its copy sees what the other takes, nor how it moves on."""
    cluster = _cluster(3)
    room = MachineRoom(cluster, cluster.grid(), 0)
    other = room.copy()
    room.take(np.array([[0, 5, 4, 1]]), CPU, 1)
    other.advance(cluster.grid().with_horizon(40), 10)
    assert room.count(0, 5, CPU, ANYWHERE, None, 99) == 8
    assert other.count(10, 40, CPU, ANYWHERE, None, 99) == 12
    assert room.count(0, STEPS, CPU, ANYWHERE, None, 99) == 8


def test_steps_that_pass_are_used_again_and_empty() -> None:
    """A day of steps one after the other goes round the ring and its size stays."""
    cluster = _cluster(70)
    room = MachineRoom(cluster, cluster.grid(), 0)
    sizes = []
    for first in range(1, 100):
        room.take(np.array([[first, first + 3, 4, 65]]), CPU, 1)
        room.advance(cluster.grid().with_horizon(STEPS + first), first)
        assert room.count(STEPS + first - 1, STEPS + first, CPU, ANYWHERE, None, 999) == 280
        sizes.append(room.nbytes)
    assert max(sizes) < 1.5 * sizes[0]
    assert room.count(99, 100, CPU, ANYWHERE, None, 999) == 276


def test_amounts_beyond_32_bits_are_counted_in_larger_units() -> None:
    """Machines are rounded down and bundles up: what is granted is there, to a small part."""
    amount = 2**35 + 12345
    group = MachineGroup("m", 2, Resources.of({"bytes": amount, "cpu": 3}))
    cluster = Cluster(STEP_MS, STEPS * STEP_MS, (group,))
    room = MachineRoom(cluster, cluster.grid(), 0)
    for parts in (1, 3, 7):
        bundle = Resources.of({"bytes": amount // parts})
        assert 2 * (parts - 1) <= room.count(0, 5, bundle, ANYWHERE, None, 99) <= 2 * parts
    assert room.count(0, 5, Resources.of({"bytes": amount + 1}), ANYWHERE, None, 9) == 0
    assert room.count(0, 5, Resources.of({"bytes": 2**39}), ANYWHERE, None, 9) == 0
    assert room.count(0, 5, Resources.of({"cpu": 1}), ANYWHERE, None, 9) == 6


def test_lists_become_longer_and_forget_what_is_past() -> None:
    """Hundreds of slots on one machine: none is lost, and what joins or is over takes no space."""
    steps = 1200
    cluster = _cluster(2, steps=steps)
    room, dense = MachineRoom(cluster, cluster.grid(), 0), DenseRoom(cluster, 0, steps)
    for start in range(0, steps, 4):
        slot = np.array([[start, start + 2 + start // 4 % 2, 1, 0]])
        room.take(slot, CPU, 1)
        dense.take(slot, CPU, 1)
    assert _same(room, dense)
    nbytes = room.nbytes
    for first in range(0, steps, 100):
        room.advance(cluster.grid().with_horizon(steps + first), first)
        dense.advance(first, steps + first)
        room.take(np.array([[steps + first - 100, steps + first, 1, 1]]), CPU, 1)
        dense.take(np.array([[steps + first - 100, steps + first, 1, 1]]), CPU, 1)
    assert _same(room, dense)
    assert room.nbytes == nbytes


def test_an_outage_without_an_end_in_sight_leaves_nothing() -> None:
    """Its end is a step beyond what the lists of a large capacity can name."""
    away = Outage("m", (0,), 0, STEP_MS * 2**33)
    room = MachineRoom(replace(_cluster(2), outages=(away,)), _cluster(2).grid(), 0)
    assert not room.fits(np.array([[3, 9, 1, 0]]), CPU)
    assert room.fits(np.array([[3, 9, 1, 1]]), CPU)


def test_many_runs_fit_on_one_machine() -> None:
    """Eighty runs of a recurrence, one after the other, where no other machine is there."""
    cluster = _cluster(1, steps=400)
    room = MachineRoom(cluster, cluster.grid(), 0)
    pieces = np.array([[5 * n, 5 * n + 3, 4] for n in range(80)])
    slots = room.lay(pieces, CPU, None, ANYWHERE)
    assert slots is not None
    assert len(slots) == 80
