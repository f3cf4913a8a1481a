"""The table of docs/operating.md: who may make which call."""

from __future__ import annotations

import pytest

from service.resources.table import ROUTES
from tests.service.access.walking import ROWS, Guarded, body_of, guarded
from tests.service.conftest import Open

#: What each call is for, by method and path.
LEAST = {(method, path): role for method, path, role, _ in ROWS}
RANKS = {"anybody": 0, "user": 1, "operator": 2, "admin": 3}
#: Who walks, and how far it goes.
WALKERS = ((None, 0), ("other", 1), ("user", 1), ("operator", 2), ("admin", 3))


def test_every_route_has_its_row() -> None:
    """The table has one row for each route, with the route's role, and no other row."""
    roles = {
        (route.method, route.path): "anybody" if route.role is None else route.role.word
        for route in ROUTES
    }
    assert roles == LEAST
    assert len(ROWS) == len(ROUTES)


@pytest.fixture
def server(open_service: Open) -> Guarded:
    """Return a service that asks for tokens."""
    return guarded(open_service, tick_s=0)


@pytest.mark.usefixtures("idle_jobs")
def test_each_call_by_each_walker(server: Guarded) -> None:
    """Nobody is told 401, too low a role 403, and who may is told neither, or is of no tenant."""
    for route in ROUTES:
        least = RANKS[LEAST[route.method, route.path]]
        path = route.path.replace("{id}", "no-such-id")
        for walker, rank in WALKERS:
            answer = server.call(walker, route.method, path, body_of(route), If_Match="*")
            code = (answer.get_json(silent=True) or {}).get("code")
            where = f"{walker} {route.method} {route.path}: {answer.status}"
            if least and walker is None:
                known = "unauthenticated" if route.failure is None else None
                assert (answer.status_code, code) == (401, known), where
                assert answer.headers["WWW-Authenticate"].startswith("Bearer"), where
            elif rank < least:
                assert (answer.status_code, code) == (403, "forbidden"), where
            elif walker != "other":
                assert answer.status_code not in (401, 403), where
            answer.close()


@pytest.mark.usefixtures("idle_jobs")
def test_anyone_who_reaches_a_server_without_tokens_may_do_everything(open_service: Open) -> None:
    """On loopback without tokens no call is 401 or 403."""
    service = open_service(tick_s=0)
    for route in ROUTES:
        path = route.path.replace("{id}", "no-such-id")
        if any(field.name == "user.name" for field in route.query):
            path += "?user.name=ann"  # YARN's calls have users, tokens or not
        answer = service.client.open(path, method=route.method, json=body_of(route))
        assert answer.status_code not in (401, 403), route
        answer.close()
