"""Tokens and the audit on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.access.token import hash_of
from service.access.user import SERVER, Actor, Role, User, acting
from service.store import AuditRow, LogEntry, Store, VersionTakenError
from service.store.audit import AuditFilter
from tests.databases import KINDS, empty_database

ANN = User("ann", Role.USER, frozenset({"ads", "web"}))
EVERYTHING = AuditFilter()


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Return the store of an empty database."""
    with empty_database(request.param, tmp_path) as url:
        made = Store(url)
        yield made
        made.close()


def test_a_token_is_found_by_its_hash_and_its_name(store: Store) -> None:
    """As it was made; by name the newest that is good; a strange secret finds none."""
    rows = store.tokens
    first, secret = rows.create(ANN, 5_000, 1_000)
    second, _ = rows.create(ANN, None, 2_000)
    assert rows.of_hash(hash_of(secret)) == first
    assert rows.of_hash(hash_of(secret + "x")) is None
    assert first.user == ANN
    assert rows.of_name("ann", 3_000) == second
    revoked = rows.revoke(second.id, 3_000)
    assert revoked is not None
    assert revoked.fault(3_000) == "the token was revoked"
    assert rows.of_name("ann", 3_000) == first
    assert rows.of_name("ann", 5_000) is None
    assert [one.id for one in rows.all()] == [first.id, second.id]
    assert rows.revoke("t-none", 1) is None


def test_an_admin_counts_while_its_token_is_good(store: Store) -> None:
    """Only that of an admin, neither ended nor revoked."""
    rows = store.tokens
    rows.create(ANN, None, 0)
    assert not rows.has_admin(1)
    token, _ = rows.create(User("ada", Role.ADMIN), 5, 0)
    assert (rows.has_admin(4), rows.has_admin(5)) == (True, False)
    rows.revoke(token.id, 1)
    assert not rows.has_admin(4)


def test_tokens_are_in_the_audit_once(store: Store) -> None:
    """Making and revoking one is a row each, by whoever does it; revoking again is none."""
    with acting(Actor(ANN, "192.0.2.1", "agenda token create")):
        token, _ = store.tokens.create(ANN, None, 7)
    store.tokens.revoke(token.id, 8)
    store.tokens.revoke(token.id, 9)
    rows = store.audit.page(EVERYTHING, None, 10)
    assert [(one.name, one.kind, one.at_ms, one.about) for one in rows] == [
        ("server", "revoke_token", 8, token.id),
        ("ann", "create_token", 7, token.id),
    ]
    assert (rows[1].address, rows[1].detail) == ("192.0.2.1", "ann user ads web")


def test_a_commit_and_its_audit_are_there_together_or_not_at_all(store: Store) -> None:
    """A version that another process took leaves no row."""
    rows = [AuditRow(SERVER, 1, "admit", f"r{n}", "ads", "", 1) for n in range(3)]
    store.append([LogEntry(1, 1, b"{}")], rows)
    with pytest.raises(VersionTakenError):
        store.append([LogEntry(1, 1, b"{}")], rows)
    found = store.audit.page(EVERYTHING, None, 10)
    assert [one.about for one in found] == ["r2", "r1", "r0"]
    assert {(one.version, one.tenant) for one in found} == {(1, "ads")}
    assert [one.about for one in store.audit.page(EVERYTHING, found[0].number, 1)] == ["r1"]
    narrowed = AuditFilter(about="r1", name="server", tenant="ads", kind="admit", start_ms=1)
    assert [one.about for one in store.audit.page(narrowed, None, 9)] == ["r1"]
    assert not store.audit.page(AuditFilter(end_ms=1), None, 9)
