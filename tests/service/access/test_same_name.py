"""Tokens of one name and other rights are other users, in all that is remembered or counted."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from werkzeug.test import TestResponse

from service.access.user import RESERVED_NAMES, Role, User
from service.cli.main import main
from service.resources.holds import MOST_HOLDS
from tests.service.access.walking import ATOM, guarded
from tests.service.conftest import Open, Service

PROXY = "10.0.0.7"


def token(service: Service, *tenants: str) -> tuple[str, str]:
    """Create a token of Ann for some tenants; return its id and its secret."""
    user = User("ann", Role.USER, frozenset(tenants))
    made, secret = service.runtime.tokens.create(user, None, service.clock.now_ms())
    return made.id, secret


def post(service: Service, secret: str, path: str, body: Any, **headers: str) -> TestResponse:
    """Post something with a token."""
    sent = {"Authorization": f"Bearer {secret}", **headers}
    return service.client.post(path, json=body, headers=sent)


@pytest.fixture
def server(open_service: Open) -> Service:
    """Return a service that asks for tokens."""
    return guarded(open_service, tick_s=0).service


def test_an_answer_is_not_remembered_for_another_tenant(server: Service) -> None:
    """One key and one request, of two tokens with one name, are two reservations."""
    key, body = {"Idempotency-Key": "k"}, {"rdl": ATOM}
    answers = [
        post(server, token(server, tenant)[1], "/v1/reservations", body, **key).get_json()
        for tenant in ("ads", "web")
    ]
    assert [one["tenant"] for one in answers] == ["ads", "web"]
    assert answers[0]["id"] != answers[1]["id"]


def test_a_token_with_fewer_rights_is_not_shown_what_an_earlier_one_was(server: Service) -> None:
    """A revoked token that is made again for fewer tenants does not read the earlier answers."""
    key, body = {"Idempotency-Key": "k"}, {"rdl": ATOM, "tenant": "web"}
    id_, secret = token(server, "ads", "web")
    assert post(server, secret, "/v1/reservations", body, **key).status_code == 201
    server.runtime.tokens.revoke(id_, server.clock.now_ms())
    fewer = post(server, token(server, "ads")[1], "/v1/reservations", body, **key)
    assert (fewer.status_code, fewer.get_json()["code"]) == (403, "forbidden")


def test_a_new_token_with_the_same_rights_repeats_a_request(server: Service) -> None:
    """Who changes its token in the middle of a retry gets the first answer, byte for byte."""
    key, body = {"Idempotency-Key": "k"}, {"rdl": ATOM}
    answers = [
        post(server, token(server, "ads")[1], "/v1/reservations", body, **key).get_data()
        for _ in range(2)
    ]
    assert answers[0] == answers[1]


def test_calls_of_another_tenant_are_counted_apart(open_service: Open) -> None:
    """Who uses up its calls leaves those of its namesake."""
    server = guarded(open_service, tick_s=0, rate=1).service
    one, other = token(server, "ads")[1], token(server, "web")[1]
    codes = [post(server, one, "/v1/rdl/check", {"rdl": ATOM}).status_code for _ in range(5)]
    assert codes[-1] == 429
    assert post(server, other, "/v1/rdl/check", {"rdl": ATOM}).status_code == 200


def test_holds_of_another_tenant_are_counted_apart(server: Service) -> None:
    """Ten holds for one tenant leave ten for the other."""
    one, other = token(server, "ads")[1], token(server, "web")[1]
    body = {"rdl": ATOM}
    codes = [post(server, one, "/v1/holds", body).status_code for _ in range(MOST_HOLDS + 1)]
    assert codes == [201] * MOST_HOLDS + [429]
    assert post(server, other, "/v1/holds", body).status_code == 201


def test_a_proxy_cannot_name_two_users_at_once(open_service: Open) -> None:
    """A name whose good tokens have different rights is refused until one of them is revoked."""
    settings: dict[str, Any] = {"trusted_header": "X-Remote-User", "proxies": (PROXY,)}
    server = guarded(open_service, tick_s=0, **settings).service
    second, _ = token(server, "web")

    def status() -> int:
        named, place = {"X-Remote-User": "ann"}, {"REMOTE_ADDR": PROXY}
        return server.client.get("/v1/plan", headers=named, environ_base=place).status_code

    assert status() == 401
    server.runtime.tokens.revoke(second, server.clock.now_ms())
    assert status() == 200


@pytest.mark.parametrize("name", [*sorted(RESERVED_NAMES), "Server"])
def test_names_of_the_audit_are_reserved(open_service: Open, name: str, tmp_path: Any) -> None:
    """No token is called as the audit calls the server or callers without a token."""
    server = guarded(open_service, tick_s=0)
    refused = server.call("admin", "POST", "/v1/tokens", {"name": name, "tenants": ["ads"]})
    assert (refused.status_code, refused.get_json()["errors"][0]["pointer"]) == (400, "/name")
    asked = ["token", "create", name, "--tenant", "ads", "--database", f"sqlite:///{tmp_path}/a.db"]
    assert CliRunner().invoke(main, asked).exit_code == 1
