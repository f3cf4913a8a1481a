"""Tenants are apart: what a user sees and does of others, call by call of docs/operating.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.api.routes import ROUTES
from tests.service.access.walking import APPLICATION, ATOM, ROWS, Guarded, body_of, guarded
from tests.service.conftest import CLUSTER, Open

#: A policy on the other tenant, and one on each.
POLICIES = """
[[policies]]
type = "quota"
name = "concealed-quota"
tenant = "ads"
limit = { cpu = 5 }

[[policies]]
type = "quota"
name = "common"
tenant = "*"
limit = { cpu = 9 }
"""
#: Of whatever belongs to tenant ads the name holds this word.
CONCEALED = "concealed"

#: What the table says of other tenants -> status of a call that names one, or None for any.
SAID = {
    "400": 400,
    "403": 403,
    "404": 404,
    "403 for each such request": 200,
    "left out": 200,
    "totals": 200,
    "totals; reservations left out": 200,
    "policies on it left out": 200,
    "none": 200,
}
OTHERS = {(method, path): said for method, path, _, said in ROWS if said}


@pytest.fixture
def server(open_service: Open, cluster_file: Path) -> Guarded:
    """Return a service on which ads has a reservation, a refusal and an application."""
    cluster_file.write_text(CLUSTER + POLICIES)
    server = guarded(open_service, tick_s=0)
    for id_, rdl, status in (("r", ATOM, 201), ("x", "atom(<1 cpu>, 99, 99, 60, 5940)", 409)):
        asked = {"id": f"{CONCEALED}-{id_}", "rdl": rdl}
        assert server.call("user", "POST", "/v1/reservations", asked).status_code == status
    asked = {"id": f"{CONCEALED}-a", "application": APPLICATION}
    assert server.call("user", "POST", "/v1/applications", asked).status_code == 201
    return server


def _path(path: str, thing: str) -> str:
    kind = "a" if "applications" in path else thing
    asked = "?reservations=true&from=0&to=4h" if path == "/v1/plan" else ""
    return path.replace("{id}", f"{CONCEALED}-{kind}") + asked


@pytest.mark.parametrize("thing", ["r", "x"])
def test_another_tenants_things_are_not_there(server: Guarded, thing: str) -> None:
    """Each call by another tenant's user answers as the table says, and names nothing of ads."""
    for route in ROUTES:
        if (route.method, route.path) not in OTHERS:
            continue
        path, body = _path(route.path, thing), body_of(route)
        answer = server.call("other", route.method, path, body, If_Match="*")
        said, text = OTHERS[route.method, route.path], answer.get_data(as_text=True)
        where = f"{route.method} {path}: {answer.status} {text}"
        assert answer.status_code == SAID[said], where
        assert CONCEALED not in text.replace(f"'{CONCEALED}-", "'"), where
        if "for each" in said:
            assert [one["status"] for one in answer.get_json()["results"]] == [403]


def test_nothing_is_told_of_whether_it_is_there(server: Guarded) -> None:
    """The answer on another tenant's id is, but for the id, that on an id that nobody has."""
    for route in ROUTES:
        if OTHERS.get((route.method, route.path)) != "404":
            continue
        texts = set()
        for id_ in (_path(route.path, "r"), _path(route.path, "x"), None):
            path = id_ or route.path.replace("{id}", "unknown")
            answer = server.call("other", route.method, path, body_of(route), If_Match="*")
            words = {path.split("/")[3]: "ID"}
            text = answer.get_data(as_text=True)
            for word, plain in words.items():
                text = text.replace(word, plain)
            texts.add((answer.status_code, text))
        assert len(texts) == 1, texts


def test_owners_and_operators_see_it(server: Guarded) -> None:
    """What is kept from the other is there for its owner and for operators."""
    paths = [f"/v1/reservations/{CONCEALED}-r", f"/v1/reservations/{CONCEALED}-x"]
    paths += ["/v1/reservations", "/v1/applications", f"/v1/applications/{CONCEALED}-a"]
    paths += [_path("/v1/plan", "r"), "/v1/cluster"]
    for walker in ("user", "operator"):
        for path in paths:
            text = server.call(walker, "GET", path).get_data(as_text=True)
            assert CONCEALED in text, (walker, path)


def test_lists_of_another_tenant(server: Guarded) -> None:
    """A list narrowed to a tenant that a user does not act for is 403, be there such or not."""
    for path in ("/v1/reservations", "/v1/applications"):
        for tenant in ("ads", "nosuch"):
            answer = server.call("other", "GET", f"{path}?tenant={tenant}")
            assert (answer.status_code, answer.get_json()["code"]) == (403, "forbidden")


def test_the_tenant_of_a_request_that_names_none(server: Guarded) -> None:
    """The only one of a user; `default` of an operator; who has several must name one."""
    asked = {"name": "both", "tenants": ["ads", "web"]}
    server.secrets["both"] = server.call("admin", "POST", "/v1/tokens", asked).get_json()["token"]

    def asks(walker: str) -> Any:
        body = server.call(walker, "POST", "/v1/reservations", {"rdl": ATOM}).get_json()
        return body["tenant"] if "tenant" in body else body["errors"][0]["pointer"]

    assert [asks(one) for one in ("user", "other", "operator", "both")] == [
        "ads", "web", "default", "/tenant",
    ]  # fmt: skip
    listed = server.call("both", "GET", "/v1/reservations").get_json()["reservations"]
    assert {one["tenant"] for one in listed} == {"ads", "web"}


def test_a_batch_of_several_tenants(server: Guarded) -> None:
    """Each request is judged by itself; all or nothing is nothing where one is of another."""
    asked = [{"rdl": ATOM, "tenant": one} for one in ("web", "ads", "web")]
    path = "/v1/reservations:batch"
    each = server.call("other", "POST", path, asked).get_json()["results"]
    assert [one["status"] for one in each] == [201, 403, 201]
    whole = server.call("other", "POST", f"{path}?atomic=true", asked)
    assert whole.status_code == 403


def test_keys_of_two_users_are_two(server: Guarded) -> None:
    """The same Idempotency-Key of another user is another key: it is no answer of somebody else."""
    body = {"rdl": ATOM}
    first, second, again = (
        server.call(one, "POST", "/v1/reservations", body, Idempotency_Key="k").get_json()
        for one in ("user", "other", "user")
    )
    assert (first["tenant"], second["tenant"]) == ("ads", "web")
    assert first == again


def test_an_application_under_another_tenants_reservation(server: Guarded) -> None:
    """To name the reservation of somebody else is as to name one that is not there."""
    for name in (f"{CONCEALED}-r", "unknown"):
        asked = {"application": APPLICATION, "reservation": name}
        answer = server.call("other", "POST", "/v1/applications", asked)
        assert answer.status_code == 404
