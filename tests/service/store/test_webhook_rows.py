"""Webhooks on disk: each event noted once, with how far the log was looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from service.store import LogEntry, Snapshot, Store
from service.store.webhooks import (
    DEAD,
    DELIVERED,
    WAITING,
    DeliveryRow,
    TooManyWebhooksError,
    WebhookRow,
)
from tests.databases import KINDS, empty_database


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Return an empty store."""
    with empty_database(request.param, tmp_path) as url:
        opened = Store(url)
        yield opened
        opened.close()


def hook(id_: str) -> WebhookRow:
    """Return a webhook."""
    return WebhookRow(id_, "https://example.org/", "whsec_eA==", "ended", None, None, 0, 5, 7, 0)


def test_an_event_is_noted_once_and_the_place_with_it(store: Store) -> None:
    """Noted again it stays as it is; of a webhook that is gone nothing is noted."""
    rows = store.webhooks
    rows.add(hook("a"), most=1)
    with pytest.raises(TooManyWebhooksError):
        rows.add(hook("b"), most=1)
    first = DeliveryRow("a", "8.1", b"{}", 10)
    rows.note([first, DeliveryRow("gone", "8.1", b"{}", 10)], [("a", 8, 1)])
    rows.settle(replace(first, attempts=1, error="it answered 500", due_ms=99))
    rows.note([first])
    assert rows.due(50, 10) == []
    assert [(one.event, one.attempts) for one in rows.due(99, 10)] == [("8.1", 1)]
    assert [(one.version, one.number) for one in rows.page()] == [(8, 1)]
    assert rows.failures("a")[0].error == "it answered 500"


def test_what_is_over_is_counted_and_forgotten(store: Store) -> None:
    """What waits stays however old it is; a webhook that is deleted leaves nothing."""
    rows = store.webhooks
    rows.add(hook("a"), most=9)
    made = [DeliveryRow("a", f"8.{n}", b"{}", 10) for n in range(3)]
    rows.note(made)
    rows.settle(replace(made[0], state=DELIVERED))
    rows.settle(replace(made[1], state=DEAD, error="no"))
    assert rows.counts("a") == {WAITING: 1, DELIVERED: 1, DEAD: 1}
    rows.forget(11)
    assert rows.counts("a") == {WAITING: 1, DELIVERED: 0, DEAD: 0}
    rows.delete("a")
    assert rows.get("a") is None
    assert rows.due(99, 10) == []


def test_events_are_kept_with_their_snapshot(store: Store) -> None:
    """The newest snapshot has the events that were saved with it; without any, none."""
    store.append([LogEntry(1, 1, b"{}"), LogEntry(2, 1, b"{}")])
    assert store.save_snapshot(Snapshot(1, 1, b"plan"), 0)
    kept = store.snapshot()
    assert kept is not None
    assert kept.events == b"[]"
    assert store.save_snapshot(Snapshot(2, 1, b"plan", b"[1]"), 0)
    kept = store.snapshot()
    assert kept is not None
    assert kept.events == b"[1]"
