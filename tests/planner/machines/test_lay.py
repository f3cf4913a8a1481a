"""Pieces laid on machines: what is found is right, and what is not found leaves no trace."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.cluster.cluster import Cluster, MachineGroup
from planner.machines.room import MachineRoom, Unlaid
from planner.reservations.rows import add_up
from planner.reservations.slots import ANYWHERE, MachineRule, pieces_of
from rdl.resources import Resources
from tests.planner.machines.model import (
    CPU,
    I64,
    STEP_MS,
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

STEPS = 19


@st.composite
def _pieces(draw: st.DrawFn) -> I64:
    """Up to five pieces of a few bundles, some of them over the same interval."""
    rows = []
    for _ in range(draw(st.integers(0, 5))):
        start, end = draw(intervals(0, STEPS))
        rows.append((start, end, draw(st.integers(0, 6))))
        if draw(st.booleans()):
            rows.append((start, end, draw(st.integers(1, 3))))
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _held(pieces: I64) -> list[int]:
    """Return how many bundles pieces hold at each step."""
    return rows_of(np.column_stack([pieces, np.zeros(len(pieces), dtype=np.int64)]), STEPS)


@given(clusters(STEPS), bundles(), labels(), rules(), _pieces(), st.data())
def test_what_is_laid_stands_on_machines_with_capacity(
    cluster: Cluster,
    bundle: Resources,
    label: str | None,
    rule: MachineRule,
    pieces: I64,
    data: st.DataObject,
) -> None:
    """Slots keep capacity, label and spread, add up to the pieces, and are taken in the room."""
    room, dense = rooms_of(cluster, data, STEPS)
    before, table = dense.left.copy(), leaves(room)
    slots = room.lay(pieces, bundle, label, rule)
    if slots is None:
        assert np.array_equal(leaves(room), table)
        return
    dense.take(slots, bundle, 1)
    assert not np.any((dense.left < 0) & (dense.left != before))
    assert set(slots[:, 3].tolist()) <= set(machines_with(cluster, label))
    assert keeps(slots, cluster, rule)
    assert rows_of(slots, STEPS) == _held(pieces)
    wanted = {(start, end) for start, end, bundles in pieces.tolist() if bundles}
    assert {(start, end) for start, end, *_ in slots.tolist()} == wanted
    assert slots.tolist() == sorted(slots.tolist(), key=lambda row: (row[0], row[1], row[3]))
    room.take(slots, bundle, -1)
    assert np.array_equal(leaves(room), table)


@given(clusters(STEPS), bundles(), labels(), rules(), _pieces(), st.data())
def test_what_finds_no_machine_is_reported(
    cluster: Cluster,
    bundle: Resources,
    label: str | None,
    rule: MachineRule,
    pieces: I64,
    data: st.DataObject,
) -> None:
    """What is laid and what is left over add up to the pieces; nothing is left where all fits."""
    room, dense = rooms_of(cluster, data, STEPS)
    other = room.copy()
    slots, left = room.lay_some(pieces, bundle, label, rule)
    assert [a + b for a, b in zip(rows_of(slots, STEPS), _held(left), strict=True)] == _held(pieces)
    whole = other.lay(pieces, bundle, label, rule)
    assert (whole is None) == bool(len(left))
    if whole is not None:
        assert np.array_equal(whole, slots)
    before = dense.left.copy()
    dense.take(slots, bundle, 1)
    assert not np.any((dense.left < 0) & (dense.left != before))
    for start, end, _ in left.tolist():
        if not rule.binds:
            assert dense.count(start, end, bundle, label, ANYWHERE) == 0


@given(
    clusters(STEPS), bundles(), labels(), rules(), intervals(0, STEPS), st.integers(1, 9), st.data()
)
def test_one_interval_is_laid_exactly_when_counting_says_so(
    cluster: Cluster,
    bundle: Resources,
    label: str | None,
    rule: MachineRule,
    interval: tuple[int, int],
    need: int,
    data: st.DataObject,
) -> None:
    """Bundles of one interval find machines if and only if this many machines hold one."""
    room, dense = rooms_of(cluster, data, STEPS)
    slots = room.lay(np.array([[*interval, need]]), bundle, label, rule)
    assert (slots is not None) == (dense.count(*interval, bundle, label, rule) >= need)


@given(clusters(STEPS), rules(), _pieces(), _pieces())
def test_slots_held_before_count_for_the_spread(
    cluster: Cluster, rule: MachineRule, first: I64, second: I64
) -> None:
    """What an atom holds already and what is laid alongside it keep its spread together."""
    room = MachineRoom(cluster, cluster.grid(), 0)
    beside, _ = room.lay_some(first, CPU, None, rule)
    slots, left = room.lay_some(second, CPU, None, rule, beside)
    together = np.concatenate([beside, slots])
    assert keeps(together, cluster, rule)
    if not rule.binds:
        return
    for start, end, _ in left.tolist():
        for machine in range(room.machines):
            more = np.array([[start, end, 1, machine]])
            if room.fits(more, CPU):
                assert not keeps(np.concatenate([together, more]), cluster, rule)


@given(clusters(STEPS), bundles(), labels(), rules(), _pieces(), st.data())
def test_rows_stand_as_their_pieces_are_laid(
    cluster: Cluster,
    bundle: Resources,
    label: str | None,
    rule: MachineRule,
    pieces: I64,
    data: st.DataObject,
) -> None:
    """One call gives the slots of `pieces_of`, or the first piece that machines do not hold."""
    room, _ = rooms_of(cluster, data, STEPS)
    rows, other, table = add_up(pieces), room.copy(), leaves(room)
    asked = pieces_of(rows)
    found, laid = room.stand(rows, bundle, label, rule), other.lay(asked, bundle, label, rule)
    if not isinstance(found, Unlaid):
        assert laid is not None
        assert np.array_equal(found, laid)
        assert np.array_equal(leaves(room), leaves(other))
        return
    assert laid is None
    assert np.array_equal(leaves(room), table)
    counts = [
        (start, end, count, room.count(start, end, bundle, rule, label, count))
        for start, end, count in asked.tolist()
    ]
    short = [Unlaid(*one) for one in counts if one[3] < one[2]]
    start, end, needed = asked[0].tolist()
    assert found == (short or [Unlaid(start, end, needed, needed - 1)])[0]


@given(clusters(STEPS), bundles(), labels(), rules(), _pieces(), st.integers(1, 6), st.data())
def test_bundles_move_only_after_a_lease(
    cluster: Cluster,
    bundle: Resources,
    label: str | None,
    rule: MachineRule,
    pieces: I64,
    lease: int,
    data: st.DataObject,
) -> None:
    """Laid in parts, slots add up to the pieces, keep all rules, and none is cut below a lease."""
    room, dense = rooms_of(cluster, data, STEPS)
    before, table, other = dense.left.copy(), leaves(room), room.copy()
    slots = room.lay_in_parts(pieces, bundle, label, rule, lease)
    if isinstance(slots, Unlaid):
        assert np.array_equal(leaves(room), table)
        assert slots.found < slots.needed
        return
    dense.take(slots, bundle, 1)
    assert not np.any((dense.left < 0) & (dense.left != before))
    assert set(slots[:, 3].tolist()) <= set(machines_with(cluster, label))
    assert keeps(slots, cluster, rule)
    assert rows_of(slots, STEPS) == _held(pieces)
    least = min((end - start for start, end, bundles in pieces.tolist() if bundles), default=lease)
    assert all(end - start >= min(lease, least) for start, end, *_ in slots.tolist())
    room.take(slots, bundle, -1)
    assert np.array_equal(leaves(room), table)
    if len(pieces) == 1 and other.lay(pieces, bundle, label, rule) is not None:
        assert {(start, end) for start, end, *_ in slots.tolist()} <= {tuple(pieces[0, :2])}


def test_nearly_every_chain_of_leases_is_found() -> None:
    """Of single bundles that machines can hold one after the other, 98 in 100 are laid."""
    rng = np.random.default_rng(1)
    found = possible = 0
    for _ in range(400):
        room = _groups(MachineGroup("m", 3, CPU))
        busy = [
            [start, start + int(rng.integers(1, 4)), 1, machine]
            for machine in range(3)
            for start in range(0, STEPS, 4)
        ]
        room.take(np.array(busy)[rng.random(len(busy)) < 0.6], CPU, 1)
        lease = int(rng.integers(1, 5))
        end = int(rng.integers(lease, STEPS + 1))
        reached = {0}
        for at in range(end):
            if at in reached:
                until = range(at + lease, end + 1)
                reached |= {to for to in until if room.count(at, to, CPU)}
        laid = room.lay_in_parts(np.array([[0, end, 1]]), CPU, None, ANYWHERE, lease)
        assert isinstance(laid, Unlaid) or end in reached
        possible += end in reached
        found += not isinstance(laid, Unlaid)
    assert possible > 50
    assert found >= 0.98 * possible


def _groups(*groups: MachineGroup) -> MachineRoom:
    cluster = Cluster(STEP_MS, STEPS * STEP_MS, groups)
    return MachineRoom(cluster, cluster.grid(), 0)


def _machine(room: MachineRoom, bundle: Resources, start: int = 0) -> int:
    slots = room.lay(np.array([[start, STEPS, 1]]), bundle, None, ANYWHERE)
    assert slots is not None
    return int(slots[0, 3])


def test_bundles_go_where_they_leave_least() -> None:
    """The machine that is left with the least capacity, at its tightest step, is taken first."""
    room = _groups(MachineGroup("m", 3, Resources.of({"cpu": 8})))
    room.take(np.array([[3, 4, 5, 1], [5, 9, 2, 2]]), CPU, 1)
    assert [_machine(room, Resources.of({"cpu": 3})) for _ in range(3)] == [1, 2, 2]
    assert _machine(room, Resources.of({"cpu": 8})) == 0


def test_bundles_go_to_machines_of_their_shape() -> None:
    """Groups come in the order of the dominant share that a bundle takes of an empty machine."""
    wide = Resources.of({"cpu": 16, "memory": 16})
    high = Resources.of({"cpu": 4, "memory": 64})
    room = _groups(MachineGroup("wide", 1, wide), MachineGroup("high", 1, high))
    assert _machine(room, Resources.of({"cpu": 1, "memory": 8})) == 1
    assert _machine(room, Resources.of({"cpu": 1, "memory": 1})) == 0


def test_machines_with_labels_are_kept_for_who_asks() -> None:
    """A bundle without a label takes machines with fewer labels first."""
    amounts = Resources.of({"cpu": 2})
    room = _groups(
        MachineGroup("gpu", 1, Resources.of({"cpu": 9}), frozenset({"gpu", "fast"})),
        MachineGroup("fast", 1, amounts, frozenset({"fast"})),
        MachineGroup("plain", 1, amounts),
    )
    assert [_machine(room, Resources.of({"cpu": 2})) for _ in range(3)] == [2, 1, 0]
