"""What YARN's clients asked for, on disk: ids, and rows that stand and fall with their commit."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from service.store import LogEntry, Store, VersionTakenError, YarnReservationRow
from service.store.archive import ArchivedRow
from tests.databases import KINDS, empty_database

ROW = YarnReservationRow("r_1", "r_1", "batch", "alice", 5, 100, 200, 0, b"{}")


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of an empty database of each kind."""
    with empty_database(request.param, tmp_path) as address:
        yield address


def append(store: Store, version: int, *rows: YarnReservationRow) -> None:
    """Append an empty record with rows alongside it."""
    store.append([LogEntry(version, 1, b"{}")], rows)


def test_a_row_is_written_with_its_commit(url: str) -> None:
    """And not where the version is taken."""
    store = Store(url)
    append(store, 1, ROW)

    with pytest.raises(VersionTakenError):
        append(store, 1, replace(ROW, id="r_2", name="r_2"))

    assert store.yarn.rows_of_client_id("r_1") == [ROW]
    assert store.yarn.rows_of_client_id("r_2") == []


def test_an_update_keeps_who_submitted(url: str) -> None:
    """The definition and its times change; queue, submitter and acceptance stay."""
    store = Store(url)
    append(store, 1, ROW)

    changed = replace(
        ROW, queue="x", submitter="bob", accepted_ms=9, deadline_ms=300, definition=b"[]"
    )
    append(store, 2, changed)

    (row,) = store.yarn.rows_of_client_id("r_1")
    assert row == replace(ROW, deadline_ms=300, definition=b"[]")


def test_rows_between_two_times(url: str) -> None:
    """Of one queue; a recurrence is always one that may touch them."""
    store = Store(url)
    rows = [
        ROW,
        replace(ROW, id="r_2", name="r_2", arrival_ms=300, deadline_ms=400),
        replace(ROW, id="r_3", name="r_3", period_ms=1000),
        replace(ROW, id="r_4", name="r_4", queue="other"),
    ]
    append(store, 1, *rows)

    def between(start_ms: int, end_ms: int | None) -> list[str]:
        return [row.id for row in store.yarn.between("batch", start_ms, end_ms)]

    assert between(0, None) == ["r_1", "r_2", "r_3"]
    assert between(0, 99) == []
    assert between(0, 100) == ["r_1", "r_3"]
    assert between(199, 250) == ["r_1", "r_3"]
    assert between(200, None) == ["r_2", "r_3"]


def test_no_two_callers_get_one_id(url: str) -> None:
    """Two stores count together, also at the same time; the start is that of the first."""
    stores = [Store(url), Store(url)]

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda n: stores[n % 2].yarn.next_id(1000 + n), range(40)))

    assert sorted(counter for _, counter in made) == list(range(1, 41))
    assert len({start for start, _ in made}) == 1


def test_a_row_leaves_with_its_reservation(url: str) -> None:
    """In the transaction in which that is archived; a refusal under the id takes nothing away."""
    store = Store(url)
    append(store, 1, ROW)
    left = ArchivedRow("r_1", "ads", "batch", "refused", 0, 1, 5, b"{}")

    store.append([LogEntry(2, 1, b"{}")], left=[left])
    assert store.yarn.rows_of_client_id("r_1") == [ROW]
    with pytest.raises(VersionTakenError):
        store.append([LogEntry(2, 1, b"{}")], left=[replace(left, state="completed")])
    assert store.yarn.rows_of_client_id("r_1") == [ROW]

    store.append([LogEntry(3, 1, b"{}")], left=[replace(left, state="completed")])
    assert store.yarn.rows_of_client_id("r_1") == []
