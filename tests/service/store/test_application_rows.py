"""Applications on disk: ids taken once, one dispatcher, nothing written without leadership."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from service.store import (
    ApplicationRow,
    IdTakenError,
    LeadershipLostError,
    PageOf,
    StatusRow,
    Store,
    Submitted,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return an empty store."""
    opened = Store(f"sqlite:///{tmp_path / 'a.db'}")
    yield opened
    opened.close()


def _row(id_: str, at_ms: int = 0) -> ApplicationRow:
    return ApplicationRow(id_, "t", at_ms, b"{}")


def test_an_id_is_taken_once(store: Store) -> None:
    """The second submission fails and changes nothing."""
    store.applications.add(_row("a", 1))
    with pytest.raises(IdTakenError):
        store.applications.add(_row("a", 2))
    found = store.applications.get("a")
    assert found is not None
    assert found.submitted_ms == 1


def test_what_a_judge_refuses_is_not_written(store: Store) -> None:
    """It sees all that have not ended, the new one among them; what it raises undoes the row."""
    seen: list[list[Submitted]] = []

    def judge(present: Sequence[Submitted]) -> None:
        seen.append(list(present))
        if len(present) > 1:
            raise ValueError("one too many")

    rows = store.applications
    rows.add(_row("a"), judge=judge)
    with pytest.raises(ValueError, match="one too many"):
        rows.add(_row("b"), judge=judge)
    assert [len(one) for one in seen] == [1, 2]
    assert rows.get("b") is None
    rows.lead("one", 0, 10)
    rows.write(1, [StatusRow("a", "killed", True, b"{}")], b"{}")
    rows.add(_row("b"), judge=judge)
    assert rows.get("b") is not None


def test_the_lease_is_one_processs_until_it_runs_out(store: Store) -> None:
    """Renewed by its holder, refused to others, free when it has run out or was given up.

    Each holder has a tenure of its own number.
    """
    rows = store.applications
    assert rows.lead("one", 0, 10) == 1
    assert rows.lead("one", 5, 15) == 1
    assert rows.lead("two", 14, 24) == 0
    assert rows.lead("two", 15, 25) == 2
    rows.give_up_leadership("one")  # no longer its own: nothing happens
    assert rows.lead("one", 16, 26) == 0
    rows.give_up_leadership("two")
    assert rows.lead("one", 17, 27) == 3


def test_a_clock_set_back_does_not_keep_everybody_out(store: Store) -> None:
    """Leadership an hour ahead is void; a little ahead, by another host's clock, it is not."""
    rows = store.applications
    assert rows.lead("one", 3_600, 3_610)
    assert not rows.lead("two", 3_570, 3_580)
    assert rows.lead("two", 0, 10)


def test_nothing_is_written_without_the_lease(store: Store) -> None:
    """Statuses and assignment are all or nothing, and only the holder's."""
    rows = store.applications
    rows.add(_row("a"))
    rows.lead("one", 0, 10)
    status = StatusRow("a", "running", False, b'{"reason":""}')
    rows.write(1, [status], b'{"rows":[]}')
    assert [row.id for row in rows.open(fresh=True)] == []
    assert rows.assignment() == b'{"rows":[]}'
    rows.lead("two", 20, 30)
    with pytest.raises(LeadershipLostError):
        rows.write(1, [StatusRow("a", "failed", True, b"{}")], b"{}")
    found = rows.get("a")
    assert found is not None
    assert (found.state, found.over, rows.assignment()) == ("running", False, b'{"rows":[]}')


def test_pages_and_ends(store: Store) -> None:
    """By submission, then id; what is over can no longer be unwanted."""
    rows = store.applications
    for id_, at_ms in (("c", 1), ("a", 2), ("b", 2)):
        rows.add(_row(id_, at_ms))
    assert [row.id for row in rows.page(PageOf(limit=2))] == ["c", "a"]
    assert [row.id for row in rows.page(PageOf(after=(2, "a")))] == ["b"]
    assert [row.id for row in rows.page(PageOf(tenant="other"))] == []
    rows.lead("one", 0, 10)
    rows.write(1, [StatusRow("c", "completed", True, b"{}")], None)
    ended = rows.end("c")
    assert ended is not None
    assert not ended.unwanted
    rows.end("a")
    assert rows.ids_to_end() == ["a"]
    assert rows.end("nobody") is None
