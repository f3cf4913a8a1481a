"""Reservations as columns: small, complete, and objects only when read."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np

from planner.plan.records.reservation_records import Admitted
from planner.plan.table import ReservationTable
from planner.plan.table_columns import Column, DetailStore, IdIndex, pack, unpack
from planner.reservations.reservation import AtomAllocation, Holding, RequestDetails
from planner.reservations.state import STATE_NUMBERS, State
from rdl.resources import Resources
from rdl.text.parser import parse

BUNDLE = Resources.of({"cpu": 1000, "memory": 2048})


def _admitted(number: int) -> Admitted:
    rows = np.array([[number, number + 5, 3], [number + 5, number + 9, 1]], dtype=np.int64)
    atom = AtomAllocation("0", BUNDLE, None, rows)
    holding = Holding((atom,), number, number + 9)
    details = RequestDetails(f"window(atom(<1 cpu>, 1, 3, 4, {number}), 0, 800)")
    return Admitted(
        f"job-{number:07d}", f"t{number % 9}", "default", 0, 1.0, 0, "gree", details, holding
    )


def test_a_reservation_takes_less_than_300_bytes() -> None:
    """Two rows each, everything counted but the text."""
    table = ReservationTable()
    for start in range(0, 50_000, 1000):
        table.append([_admitted(number) for number in range(start, start + 1000)], 0, 1)
    assert table.nbytes() / len(table) < 300


def test_the_garbage_collector_does_not_see_reservations() -> None:
    """A full collection walks objects; ten thousand reservations add next to none."""
    table = ReservationTable()
    gc.collect()
    before = len(gc.get_objects())
    table.append([_admitted(number) for number in range(10_000)], 0, 1)
    gc.collect()
    assert len(gc.get_objects()) - before < 100


def test_what_is_read_is_what_was_kept() -> None:
    """Rows, bundle, scope, text and choices come back; the arrays cannot be written."""
    table = ReservationTable()
    table.append([_admitted(number) for number in range(5)], 7, 3)
    found = table.read(3)
    assert (found.id, found.tenant, found.expression) == (
        "job-0000003",
        "t3",
        "window(atom(<1 cpu>, 1, 3, 4, 3), 0, 800)",
    )
    assert found.atoms[0].rows.tolist() == [[3, 8, 3], [8, 12, 1]]
    assert found.history[0].version == 3
    assert not found.atoms[0].rows.flags.writeable


def _every(number: int, shifts: tuple[int, ...], rows: list[list[int]]) -> Admitted:
    """Return a recurrence: rows of the first run, and how far the others are from it."""
    atom = AtomAllocation("0@*", BUNDLE, None, np.array(rows, dtype=np.int64), shifts)
    last = max(end for _, end, _ in rows) + shifts[-1]
    held = Holding((atom,), rows[0][0], last)
    return replace(_admitted(number), holding=held)


def test_what_holds_something_in_a_time_is_found_run_by_run() -> None:
    """Gaps within a row list, runs of recurrences and what holds nothing: as row by row."""
    table = ReservationTable()
    admitted = [_admitted(number) for number in range(6)]
    admitted += [
        _every(6, (0, 20, 40), [[2, 4, 1]]),
        _every(7, (0, 7), [[0, 1, 1], [5, 6, 2]]),
        replace(_admitted(8), holding=Holding((), 0, 0)),
        _every(9, (0, 20, 40), [[9, 10, 1]]),
    ]
    table.append(admitted, 0, 1)
    for start in range(55):
        for end in range(start + 1, 55):
            expected = [
                number
                for number, one in enumerate(admitted)
                for atom in one.holding.atoms
                if any(first < end and last > start for first, last, _ in atom.all_rows())
            ]
            found = table.holding_between(np.arange(len(table)), start, end)
            assert found.tolist() == expected


def test_tenant_queue_and_state_narrow_together() -> None:
    """Every combination, within a range of numbers, as entry by entry; unknown names find none."""
    table = ReservationTable()
    table.append([_admitted(number) for number in range(40)], 0, 1)
    table.meta["state"][::3] = STATE_NUMBERS[State.CANCELLED]
    for tenant in (None, "t1", "t8", "nobody"):
        for queue in (None, "default", "other"):
            for state in (None, State.ACCEPTED, State.CANCELLED, State.REFUSED):
                expected = [
                    number
                    for number in range(5, 33)
                    if tenant in (None, table.scope(number)[0])
                    and queue in (None, table.scope(number)[1])
                    and state in (None, table.state(number))
                ]
                found = table.select(range(5, 33), tenant, queue, state)
                assert found.tolist() == expected


def test_rows_that_take_the_same_are_read_together() -> None:
    """Joined by tenant, queue, bundle and machines, nothing lost and nothing twice."""
    table = ReservationTable()
    table.append([_admitted(number) for number in range(20)], 0, 1)
    held = list(table.rows_by_taker())
    assert {one.tenant for one in held} == {f"t{n}" for n in range(9)}
    joined = sorted(tuple(row) for one in held for row in one.rows.tolist())
    apart = sorted(
        tuple(row)
        for number in range(20)
        for atom in table.read(number).atoms
        for row in atom.rows.tolist()
    )
    assert joined == apart


def test_details_are_packed_and_unpacked() -> None:
    """Text alone, and text with choices, notes and how it was written."""
    for details in (
        RequestDetails("x"),
        RequestDetails("x", (("0", 1),), ("a note",)),
        RequestDetails("x", written="y"),
        RequestDetails("x", (), ("a note",), written="y"),
    ):
        assert unpack(pack(details)) == details


def test_details_in_memory_can_be_replaced() -> None:
    """An update brings another text."""
    store = DetailStore()
    store.put(0, RequestDetails("a"))
    store.put(1, RequestDetails("b"))
    store.put(0, RequestDetails("c"))
    assert [store.get(number).text for number in (0, 1)] == ["c", "b"]
    assert store.nbytes() > 0


def test_a_large_column_grows_and_keeps_what_it_held() -> None:
    """Past the size of its own pages, grown in place, and with a view held: every entry stays."""
    column = Column(np.dtype([("one", np.int64), ("other", np.int32)]))
    views = []
    for number in range(60_000):
        column.append([(number, -number)])
        if number % 20_000 == 19_999:
            views.append(column.data)  # the pages cannot move under it
    assert np.array_equal(column.data["one"], np.arange(60_000))
    assert np.array_equal(column.data["other"], -np.arange(60_000))
    for part, view in enumerate(views, 1):
        assert np.array_equal(view["one"], np.arange(20_000 * part))


def test_ids_are_found_by_their_numbers() -> None:
    """Every id that was put is found, an id put twice under its last number, and no other."""
    index = IdIndex(f"job-{number}" for number in range(2000))
    index.put("job-7", 9000)
    assert [index.get(f"job-{number}") for number in (0, 7, 1999)] == [0, 9000, 1999]
    assert index.get("job-2000") is None


def test_a_text_that_stands_is_kept_instead_of_its_tree() -> None:
    """A service writes the text of all it commits; the tree beside it would be kept for nothing."""
    expression = parse("window(atom(<1 cpu>, 1, 3, 4, 12), 0, 800)")
    unwritten, written = RequestDetails(expression), RequestDetails(expression)
    text = written.text
    store = DetailStore()

    store.put(0, unwritten)
    store.put(1, written)

    assert store._kept == [expression, text.encode()]
    assert store.get(0) == store.get(1)
