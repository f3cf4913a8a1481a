"""The search for one atom's slots: every answer is right, and no rectangle is overlooked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.cluster.cluster import Cluster, MachineGroup
from planner.machines.room import MachineRoom
from planner.machines.slot_atom import SlotAtom
from planner.reservations.slots import ANYWHERE, MachineRule
from rdl.compile.shapes import is_reachable, least_reachable
from rdl.resources import Resources
from tests.planner.machines.model import (
    CPU,
    I64,
    STEP_MS,
    DenseRoom,
    bundles,
    clusters,
    intervals,
    keeps,
    labels,
    leaves,
    machines_with,
    rooms_of,
    rows_of,
    rules,
)

STEPS = 17
ALL_TRIES = 1000


@st.composite
def _atoms(draw: st.DrawFn) -> SlotAtom:
    """Atoms of all kinds, their work reachable."""
    lo, hi = draw(intervals(0, STEPS))
    multiple = draw(st.sampled_from([1, 1, 1, 2]))
    least = multiple * draw(st.integers(1, 3))
    most = least + multiple * draw(st.sampled_from([0, 1, 4]))
    lease = draw(st.integers(1, 5))
    work = least_reachable(least, most, multiple, lease, draw(st.integers(1, 40)))
    what = (draw(bundles()), draw(labels()), draw(rules()), draw(st.booleans()))
    return SlotAtom(lo, hi, least, most, multiple, lease, work, *what)


@st.composite
def _pools(draw: st.DrawFn, atom: SlotAtom) -> I64:
    """What the pool allows: plenty, or little somewhere."""
    room = np.full(atom.hi - atom.lo, 99, dtype=np.int64)
    for _ in range(draw(st.integers(0, 2))):
        start, end = draw(intervals(0, len(room)))
        room[start:end] = draw(st.integers(-1, 3))
    return room


def _is_right(slots: I64, atom: SlotAtom, pool: I64, cluster: Cluster) -> None:
    """Check everything but what machines have."""
    assert (atom.lo <= slots[:, 0]).all()
    assert (slots[:, 1] <= atom.hi).all()
    assert (slots[:, 1] - slots[:, 0] >= atom.lease).all()
    assert (slots[:, 2] > 0).all()
    held = rows_of(slots, STEPS)
    assert sum(held) == atom.work
    for height in held:
        assert height == 0 or atom.least <= height <= atom.most
        assert height % atom.multiple == 0
    assert (np.array(held[atom.lo : atom.hi]) <= np.maximum(pool, 0)).all()
    assert set(slots[:, 3].tolist()) <= set(machines_with(cluster, atom.label))
    assert keeps(slots, cluster, atom.rule)
    if not atom.rule.handover:
        assert len(set(slots[:, 1].tolist())) == 1
    assert slots.tolist() == sorted(slots.tolist(), key=lambda row: (row[0], row[1], row[3]))


@given(clusters(STEPS), _atoms(), st.integers(1, 6), st.integers(1, 4), st.data())
def test_what_is_found_is_right_and_taken(
    cluster: Cluster, atom: SlotAtom, tries: int, best_of: int, data: st.DataObject
) -> None:
    """Slots keep heights, leases, work, window, pool, machines, label and spread."""
    room, dense = rooms_of(cluster, data, STEPS, 8)
    pool = data.draw(_pools(atom))
    before, table = dense.left.copy(), leaves(room)
    slots = room.search(atom, pool, tries, best_of)
    if slots is None:
        assert np.array_equal(leaves(room), table)
        return
    _is_right(slots, atom, pool, cluster)
    dense.take(slots, atom.bundle, 1)
    assert not np.any((dense.left < 0) & (dense.left != before))
    room.take(slots, atom.bundle, -1)
    assert np.array_equal(leaves(room), table)


def _rectangle_stands(dense: DenseRoom, atom: SlotAtom, pool: I64) -> bool:
    """Return whether a rectangle of some height, its first column cut, has machines somewhere."""
    for height in range(atom.least, atom.most + 1, atom.multiple):
        length = -(-atom.work // height)
        late = height * length - atom.work
        if length < atom.lease or length > atom.hi - atom.lo:
            continue
        if late and (length == atom.lease or height - late < atom.least or late % atom.multiple):
            continue
        for start in range(atom.lo, atom.hi - length + 1):
            free = pool[start - atom.lo : start - atom.lo + length].min() >= height
            found = dense.count(start, start + length, atom.bundle, atom.label, atom.rule)
            if free and found >= height:
                return True
    return False


@given(clusters(STEPS), _atoms(), st.data())
def test_no_rectangle_is_overlooked(cluster: Cluster, atom: SlotAtom, data: st.DataObject) -> None:
    """With tries enough and no hand-overs, slots are found where a rectangle stands.

    Where none does, a gang may be found as blocks that stand apart.
    """
    atom = replace(atom, rule=atom.rule._replace(handover=False))
    room, dense = rooms_of(cluster, data, STEPS, 8)
    pool = data.draw(_pools(atom))
    expected = _rectangle_stands(dense, atom, pool)
    table = leaves(room)
    at, most = room.most_found(atom, pool, ALL_TRIES)
    assert np.array_equal(leaves(room), table)
    assert atom.lo <= at <= atom.hi
    slots = room.search(atom, pool, ALL_TRIES, 3)
    assert slots is not None or not expected
    if slots is not None and not expected:
        _is_right(slots, replace(atom, rule=atom.rule._replace(handover=True)), pool, cluster)
        assert len(set(slots[:, 0].tolist())) > 1
    assert 0 <= most <= atom.most


@given(clusters(STEPS), _atoms(), st.data())
def test_the_start_told_has_most_slots(
    cluster: Cluster, atom: SlotAtom, data: st.DataObject
) -> None:
    """Of the starts that the pool allows, the one told has most slots for the lowest rectangle."""
    height = atom.least
    atom = replace(atom, most=height, work=height * atom.lease)
    room, dense = rooms_of(cluster, data, STEPS, 8)
    pool = data.draw(_pools(atom))
    starts = [
        start
        for start in range(atom.lo, atom.hi - atom.lease + 1)
        if pool[start - atom.lo : start - atom.lo + atom.lease].min() >= height
    ]

    def found(start: int) -> int:
        end = start + atom.lease
        return min(height, dense.count(start, end, atom.bundle, atom.label, atom.rule))

    at, most = room.most_found(atom, pool, ALL_TRIES)
    assert most == max(map(found, starts), default=0)
    assert not starts or found(at) == most


def _cluster(count: int, cpu: int = 1) -> Cluster:
    return Cluster(
        STEP_MS, STEPS * STEP_MS, (MachineGroup("m", count, Resources.of({"cpu": cpu})),)
    )


def _atom(least: int, most: int, lease: int, work: int, rule: MachineRule = ANYWHERE) -> SlotAtom:
    assert is_reachable(least, most, 1, lease, work)
    return SlotAtom(0, STEPS, least, most, 1, lease, work, CPU, None, rule)


def _free(steps: int = STEPS) -> I64:
    return np.full(steps, 99, dtype=np.int64)


def test_single_bundles_use_the_free_runs_of_machines() -> None:
    """Where no rectangle fits, bundles go into the longest runs, one after the other."""
    cluster = _cluster(2)
    room = MachineRoom(cluster, cluster.grid(), 0)
    room.take(np.array([[0, 4, 1, 0], [9, 17, 1, 0], [0, 8, 1, 1], [14, 17, 1, 1]]), CPU, 1)
    slots = room.search(_atom(1, 2, 3, 11), _free(), 8, 4)
    assert slots is not None
    assert slots.tolist() == [[4, 9, 1, 0], [8, 14, 1, 1]]
    room.take(slots, CPU, -1)
    whole = MachineRule(handover=False)
    assert room.search(_atom(1, 2, 3, 11, whole), _free(), 8, 4) is None


def test_a_gang_may_take_its_leases_in_blocks() -> None:
    """A gang whose whole time nowhere fits takes leases; none continues in the next if it stays."""
    cluster = _cluster(2)
    room = MachineRoom(cluster, cluster.grid(), 0)
    room.take(np.array([[4, 6, 1, 0], [4, 6, 1, 1]]), CPU, 1)
    gang = _atom(2, 2, 4, 24)
    kept = replace(gang, rule=MachineRule(handover=False))
    apart = room.search(kept, _free(), 8, 4)
    assert apart is not None
    assert rows_of(apart, STEPS) == [2] * 4 + [0] * 4 + [2] * 4 + [0] + [2] * 4
    room.take(apart, CPU, -1)
    slots = room.search(gang, _free(), 8, 4)
    assert slots is not None
    assert rows_of(slots, STEPS) == [2] * 4 + [0] * 5 + [2] * 8


def test_early_and_late_starts() -> None:
    """With one try the search takes the latest start, or the earliest where it is asked to."""
    cluster = _cluster(1)
    for early, start in ((False, STEPS - 5), (True, 0)):
        room = MachineRoom(cluster, cluster.grid(), 0)
        slots = room.search(replace(_atom(1, 1, 5, 5), early=early), _free(), 1, 1)
        assert slots is not None
        assert slots[0, 0] == start


def test_a_window_that_has_passed_finds_nothing() -> None:
    """What is before the first step of a room or past its horizon is no free capacity."""
    cluster = _cluster(1)
    room = MachineRoom(cluster, cluster.grid(), 10)
    atom = replace(_atom(1, 1, 5, 5), hi=12)
    assert room.search(atom, _free(12), 4, 4) is None
    assert room.most_found(atom, _free(12), 4) == (10, 0)
    assert room.search(replace(atom, hi=40), _free(40), 4, 4) is not None
    assert room.search(replace(atom, lo=2, hi=9), _free(7), 4, 4) is None


def test_single_bundles_keep_the_spread_over_stripes() -> None:
    """Free runs of two groups in one rack count together where the rule counts racks."""
    rack = (("rack", "r1"),)
    groups = [MachineGroup(name, 1, CPU, frozenset(), rack) for name in "ab"]
    cluster = Cluster(STEP_MS, STEPS * STEP_MS, tuple(groups))
    room = MachineRoom(cluster, cluster.grid(), 0)
    room.take(np.array([[8, 17, 1, 0], [0, 5, 1, 1]]), CPU, 1)
    racks = MachineRule(1, "rack")
    assert room.search(_atom(1, 2, 3, 20, racks), _free(), 8, 4) is None
    slots = room.search(_atom(1, 2, 3, 20), _free(), 8, 4)
    assert slots is not None
    assert slots.tolist() == [[0, 8, 1, 0], [5, 17, 1, 1]]
