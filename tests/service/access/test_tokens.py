"""Tokens: made, shown, ended, revoked; names that a proxy gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.access.token import PREFIX
from service.access.user import Role, User
from service.config import ConfigError, ServiceConfig, require_access
from service.store import tokens as token_book
from service.store.engine import UnavailableError
from service.store.tokens import TokenRows
from tests.service.access.walking import ATOM, Guarded, guarded
from tests.service.conftest import Open


@pytest.fixture
def server(open_service: Open) -> Guarded:
    """Return a service that asks for tokens, and looks each of them up at every call."""
    return guarded(open_service, tick_s=0)


@pytest.fixture
def unremembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no process remember a token."""
    monkeypatch.setattr(token_book, "FRESH_S", 0.0)


def test_a_secret_is_shown_once_and_kept_nowhere(server: Guarded, tmp_path: Path) -> None:
    """The answer to its creation holds the secret; lists and the database do not."""
    asked = {"name": "nightly", "tenants": ["ads"], "end": "+1h"}
    made = server.call("admin", "POST", "/v1/tokens", asked)
    secret = made.get_json()["token"]
    assert made.status_code == 201
    assert secret.startswith(PREFIX)
    assert made.headers["Cache-Control"] == "no-store"

    listed = server.call("admin", "GET", "/v1/tokens")
    assert secret not in listed.get_data(as_text=True)
    assert "nightly" in [one["name"] for one in listed.get_json()["tokens"]]
    for file in tmp_path.glob("agenda.db*"):
        assert secret.encode() not in file.read_bytes()


@pytest.mark.usefixtures("unremembered")
def test_a_token_is_good_until_it_is_revoked_or_ends(server: Guarded) -> None:
    """After its end, and after it was revoked, a token is 401 and says so."""
    asked = {"name": "short", "tenants": ["ads"], "end": "+1h"}
    made = server.call("admin", "POST", "/v1/tokens", asked).get_json()
    server.secrets["short"] = made["token"]
    assert server.call("short", "GET", "/v1/plan").status_code == 200
    server.service.clock.advance(3600)
    ended = server.call("short", "GET", "/v1/plan")
    assert (ended.status_code, ended.get_json()["detail"]) == (401, "the token has ended")

    users = server.call("admin", "GET", "/v1/tokens").get_json()["tokens"]
    id_ = next(one["id"] for one in users if one["name"] == "ann")
    assert server.call("user", "GET", "/v1/plan").status_code == 200
    revoked = server.call("admin", "DELETE", f"/v1/tokens/{id_}").get_json()
    assert (revoked["good"], revoked["revoked_at"] is not None) == (False, True)
    told = server.call("user", "GET", "/v1/plan")
    assert (told.status_code, told.get_json()["detail"]) == (401, "the token was revoked")


def test_a_process_remembers_a_token_for_a_second(
    server: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process revokes is good for a second of the steady clock, and not longer."""
    now = [100.0]
    monkeypatch.setattr("service.store.tokens.time.monotonic", lambda: now[0])
    book, rows = server.service.runtime.token_book, server.service.runtime.tokens
    token, secret = rows.create(User("x", Role.ADMIN), None, 0)
    assert book.of_key(token_book.key_of_secret(secret), 1) is not None
    rows.revoke(token.id, 2)
    now[0] += token_book.FRESH_S / 2
    assert book.of_key(token_book.key_of_secret(secret), 3).fault(3) is None  # type: ignore[union-attr]
    now[0] += token_book.FRESH_S
    assert book.of_key(token_book.key_of_secret(secret), 4).fault(4) == "the token was revoked"  # type: ignore[union-attr]


def test_tokens_that_stay_as_they_are_are_read_once(
    server: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a second one look tells, for all of them, that none has changed."""
    now = [100.0]
    monkeypatch.setattr("service.store.tokens.time.monotonic", lambda: now[0])
    book, rows = server.service.runtime.token_book, server.service.runtime.tokens
    keys = [
        token_book.key_of_secret(rows.create(User(name, Role.USER), None, 0)[1]) for name in "abc"
    ]
    read: list[str] = []
    find = rows.of_hash

    def reading(key: str) -> Any:
        read.append(key)
        return find(key)

    monkeypatch.setattr(rows, "of_hash", reading)
    for _ in range(3):
        now[0] += 2 * token_book.FRESH_S
        assert all(book.of_key(key, 1) is not None for key in keys)
    assert read == keys
    rows.create(User("d", Role.USER), None, 0)
    now[0] += 2 * token_book.FRESH_S
    assert book.of_key(keys[0], 1) is not None
    assert read == [*keys, keys[0]]


def test_a_token_that_is_revoked_while_it_is_read_is_not_remembered(
    server: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read before another thread noticed the change is good for this call alone."""
    monkeypatch.setattr(token_book, "FRESH_S", 0.0)
    book, rows = server.service.runtime.token_book, server.service.runtime.tokens
    token, secret = rows.create(User("x", Role.ADMIN), None, 0)
    key, find = token_book.key_of_secret(secret), rows.of_hash

    def slow(digest: str) -> Any:
        found = find(digest)
        monkeypatch.setattr(rows, "of_hash", find)
        rows.revoke(token.id, 2)
        book.of_key("another", 2)
        return found

    monkeypatch.setattr(rows, "of_hash", slow)
    assert book.of_key(key, 1).fault(1) is None  # type: ignore[union-attr]
    monkeypatch.setattr(token_book, "FRESH_S", 3600.0)
    assert book.of_key(key, 3).fault(3) == "the token was revoked"  # type: ignore[union-attr]


def test_the_last_use_is_kept(server: Guarded) -> None:
    """A token that was used says so; one that never was does not."""
    server.call("user", "GET", "/v1/plan")
    listed = server.call("admin", "GET", "/v1/tokens").get_json()["tokens"]
    used = {one["name"]: one["used_at"] is not None for one in listed}
    assert (used["ann"], used["olga"]) == (True, False)


@pytest.mark.parametrize("given", ["Basic YTpi", "Bearer", "Bearer a b", "Bearer \x7f", "x" * 999])
def test_headers_that_are_no_token(server: Guarded, given: str) -> None:
    """An Authorization of another shape is 401, and says how to write it."""
    answer = server.service.client.get("/v1/plan", headers={"Authorization": given})
    assert answer.status_code == 401
    assert "Bearer" in answer.headers["WWW-Authenticate"]


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"name": "a"}, "/tenants"),
        ({"name": "a", "role": "admin", "tenants": ["ads"]}, "/tenants"),
        ({"name": "a b", "tenants": ["ads"]}, "/name"),
        ({"name": "a", "tenants": ["ads"], "end": "2020-01-01T00:00:00Z"}, "/end"),
    ],
)
def test_tokens_that_cannot_be(server: Guarded, asked: Any, pointer: str) -> None:
    """A token that would be of no use is 400, and says where."""
    answer = server.call("admin", "POST", "/v1/tokens", asked)
    assert (answer.status_code, answer.get_json()["errors"][0]["pointer"]) == (400, pointer)


def test_a_trusted_proxy_names_the_user(open_service: Open) -> None:
    """Its header counts from its address alone; rights are those of the name's token."""
    server = guarded(open_service, tick_s=0, trusted_header="X-Remote-User", proxies=("10.0.0.7",))
    get = server.service.client.get
    trusted, strange = {"REMOTE_ADDR": "10.0.0.7"}, {"REMOTE_ADDR": "10.0.0.8"}
    ann, nobody = {"X-Remote-User": "ann"}, {"X-Remote-User": "nobody"}
    assert get("/v1/plan", headers=ann, environ_base=trusted).status_code == 200
    assert get("/v1/tokens", headers=ann, environ_base=trusted).status_code == 403
    assert get("/v1/plan", headers=nobody, environ_base=trusted).status_code == 401
    assert get("/v1/plan", environ_base=trusted).status_code == 401
    assert get("/v1/plan", headers=ann, environ_base=strange).status_code == 401


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"host": "0.0.0.0"}, "--auth token"),
        ({"host": "10.1.2.3"}, "agenda token create"),
        ({"trusted_header": "X-Remote-User"}, "--proxy"),
        ({"proxies": ("proxy.example",)}, "address"),
        ({"auth": "password"}, "none, token"),
    ],
)
def test_settings_under_which_anybody_could_call(settings: Any, said: str) -> None:
    """A server that others reach without a token does not start, and says what would be right."""
    with pytest.raises(ConfigError, match=said):
        require_access(ServiceConfig(**settings))
    require_access(ServiceConfig(host="0.0.0.0", auth="token"))


@pytest.mark.parametrize(
    ("host", "asked", "status"),
    [
        ("0.0.0.0", "10.1.2.3:80", 200),
        ("0.0.0.0", "evil.example", 421),
        ("10.1.2.3", "10.1.2.4", 421),
        ("10.1.2.3", "10.1.2.3", 200),
        ("10.1.2.3", "agenda.example", 200),
    ],
)
def test_names_of_a_server_elsewhere(
    open_service: Open, host: str, asked: str, status: int
) -> None:
    """Host and Origin are held against the address that is listened on, and the names given."""
    server = guarded(open_service, tick_s=0, host=host, names=("agenda.example",))
    answer = server.call("user", "GET", "/v1/plan", Host=asked)
    assert answer.status_code == status
    posted = server.call(
        "user", "POST", "/v1/rdl/check", {"rdl": "void"}, Origin=f"https://{asked}"
    )
    assert (posted.status_code == 403) == (status == 421)


def test_a_stream_ends_with_its_token(server: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who listens hears nothing more once the token is revoked; others listen on."""
    monkeypatch.setattr("service.streaming.live_stream.JUDGED_S", 0.0)
    ended, goes_on = (
        iter(server.call(walker, "GET", "/v1/events?kinds=accepted&wait=1m").response)
        for walker in ("other", "user")
    )
    assert b"event: start" in next(ended)
    assert b"event: start" in next(goes_on)
    tokens = server.call("admin", "GET", "/v1/tokens").get_json()["tokens"]
    (olga,) = (one["id"] for one in tokens if one["name"] == "olga")
    assert server.call("admin", "DELETE", f"/v1/tokens/{olga}").status_code == 200
    assert list(ended) == [], "it told on, if only that it lives"
    asked = {"id": "a", "rdl": ATOM}
    assert server.call("user", "POST", "/v1/reservations", asked).status_code == 201
    assert b"event: accepted" in next(goes_on)


@pytest.mark.usefixtures("unremembered")
def test_figures_continue_while_the_database_is_unavailable(
    server: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator whom the process has met reads /metrics; other calls and other tokens are 503."""
    assert server.call("operator", "GET", "/metrics").status_code == 200

    def away(_rows: object, *_given: object) -> None:
        raise UnavailableError("connection refused")

    for name in ("stamp", "of_hash"):
        monkeypatch.setattr(TokenRows, name, away)

    assert server.call("operator", "GET", "/metrics").status_code == 200
    assert server.call("operator", "GET", "/v1/plan").status_code == 503
    assert server.call("admin", "GET", "/metrics").status_code == 503
