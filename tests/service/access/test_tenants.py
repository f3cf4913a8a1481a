"""Tenants are apart: what a user sees and does of others, call by call of docs/operating.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from service.access.user import Role
from service.http.route import Route
from service.resources.table import ROUTES
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
    "404 without its token": 404,
    "403 for each such request": 200,
    "left out": 200,
    "left out, and their use": 200,
    "totals": 200,
    "totals; reservations left out": 200,
    "policies on it left out": 200,
    "none": 200,
    "leads to the page": 302,
}
OTHERS = {(method, path): said for method, path, _, said in ROWS if said}


#: What a YARN client asks for; its times are after the clock of tests.
_ARRIVAL_MS = 1_767_571_200_000
DEFINITION = {
    "arrival": _ARRIVAL_MS,
    "deadline": _ARRIVAL_MS + 7_200_000,
    "reservation-name": f"{CONCEALED}-y",
    "reservation-requests": {
        "reservation-request-interpreter": 0,
        "reservation-request": {
            "duration": 60_000,
            "num-containers": 1,
            "min-concurrency": 1,
            "capability": {"memory": 1024, "vCores": 1},
        },
    },
}


@dataclass(frozen=True, slots=True)
class Walk:
    """A service on which ads has one of everything that a tenant may have."""

    server: Guarded
    webhook: str
    yarn: str

    def path(self, route: Route, thing: str = "r") -> str:
        """Return the path of a route to what ads has; `thing` is `r` or `x`, a refusal."""
        ids = {
            "/v1/webhooks": self.webhook,
            "/v1/applications": f"{CONCEALED}-a",
            "/v1/holds": f"{CONCEALED}-h",
        }
        own = (id_ for start, id_ in ids.items() if route.path.startswith(start))
        asked = {
            "/v1/plan": "?reservations=true&from=0&to=4h",
            "/v1/plan/changes": "?since=0",
            "/v1/events": "?wait=1s&after=0",
            "/v1/calendar.ics": f"?token={CONCEALED}",
        }
        id_ = next(own, f"{CONCEALED}-{thing}")
        path = route.path.replace("{digest}/{folder}/{name}", "any/core/dom.js")
        path = path.replace("{name}", f"{CONCEALED}-quota")
        return path.replace("{id}", id_) + asked.get(route.path, "")

    def body(self, route: Route) -> Any:
        """Return a body that a route reads, about what ads has."""
        if not route.path.startswith("/ws/v1/"):
            return body_of(route)
        named = {"reservation-id": self.yarn}
        return {
            "submit": {"queue": "default", **named, "reservation-definition": DEFINITION},
            "update": {**named, "reservation-definition": DEFINITION},
            "delete": named,
        }.get(route.path.rpartition("/")[2])

    def answer(self, walker: str, route: Route, thing: str = "r") -> Any:
        """Return the answer to a walker."""
        path, body = self.path(route, thing), self.body(route)
        return self.server.call(walker, route.method, path, body, If_Match="*")


@pytest.fixture
def walk(server: Guarded) -> Walk:
    """Return a service on which ads has a webhook, a hold and a YARN reservation too."""

    def made(path: str, body: Any, status: int = 201) -> Any:
        answer = server.call("user", "POST", path, body)
        assert answer.status_code == status, answer.get_data(as_text=True)
        return answer.get_json(silent=True)

    made("/v1/holds", {"id": f"{CONCEALED}-h", "rdl": ATOM})
    hook = made("/v1/webhooks", {"url": f"https://{CONCEALED}.example/"})["id"]
    base = "/ws/v1/cluster/reservation"
    yarn = made(f"{base}/new-reservation", None, 200)["reservation-id"]
    asked = {"queue": "default", "reservation-id": yarn, "reservation-definition": DEFINITION}
    made(f"{base}/submit", asked, 202)
    return Walk(server, hook, yarn)


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


def test_every_call_of_users_has_a_rule() -> None:
    """What a user may call says the outcome of other tenants' things."""
    open_to_users = {
        (route.method, route.path) for route in ROUTES if route.role in (None, Role.USER)
    }
    assert open_to_users - OTHERS.keys() <= {("GET", "/metrics")}
    assert OTHERS.keys() <= open_to_users


@pytest.mark.parametrize("thing", ["r", "x"])
def test_another_tenants_things_are_not_there(walk: Walk, thing: str) -> None:
    """Each call by another tenant's user answers as the table says, and names nothing of ads."""
    for route in ROUTES:
        if (route.method, route.path) not in OTHERS:
            continue
        answer = walk.answer("other", route, thing)
        said, text = OTHERS[route.method, route.path], answer.get_data(as_text=True)
        where = f"{route.method} {walk.path(route, thing)}: {answer.status} {text}"
        assert answer.status_code == SAID[said], where
        assert CONCEALED not in text.replace(f"'{CONCEALED}-", "'"), where
        if "for each" in said:
            assert [one["status"] for one in answer.get_json()["results"]] == [403]


def test_nothing_is_notified_of_whether_it_is_there(walk: Walk) -> None:
    """The answer on another tenant's id is, but for the id, that on an id that no one has."""
    for route in ROUTES:
        if OTHERS.get((route.method, route.path)) != "404":
            continue
        texts = set()
        unknown = re.sub(r"\{(id|name)\}", "unknown", route.path)
        place = unknown.split("/").index("unknown")
        for path in (walk.path(route, "r"), walk.path(route, "x"), unknown):
            answer = walk.server.call("other", route.method, path, walk.body(route), If_Match="*")
            text = answer.get_data(as_text=True).replace(path.split("/")[place], "ID")
            texts.add((answer.status_code, text))
        assert len(texts) == 1, texts


def test_owners_and_operators_see_it(walk: Walk) -> None:
    """What is kept from the other is there for its owner and for operators."""
    silent = {"/v1/reservations/{id}/explanation", "/v1/applications/{id}/estimate"}
    silent |= {"/v1/applications/{id}/runs", "/v1/applications/{id}/logs"}
    # None is there: tests/service/resources/test_pipelines.py, test_pipeline_runs.py.
    silent |= {"/v1/pipelines", "/v1/pipelines/{id}", "/v1/pipelines/{id}/runs"}
    silent |= {
        "/v1/assignments",
        "/v1/tenants",
        "/v1/plan/counts",
    }  # names nothing that ads has called so
    kept = (
        "left out",
        "left out, and their use",
        "404",
        "totals; reservations left out",
        "policies on it left out",
    )
    for route in ROUTES:
        if route.method != "GET" or route.path in silent:
            continue
        if OTHERS.get((route.method, route.path)) not in kept:
            continue
        for walker in ("user", "operator"):
            answer = walk.answer(walker, route)
            where = (walker, route.path, answer.status)
            assert answer.status_code == 200, where
            assert CONCEALED in answer.get_data(as_text=True), where


def test_to_name_another_tenant_is_forbidden(walk: Walk) -> None:
    """Every query and body that names a tenant of others is 403, be there such a tenant or not."""
    seen = set()
    for route in ROUTES:
        if route.role is not Role.USER or route.path.startswith("/ws/"):
            continue
        for tenant in ("ads", "nosuch"):
            path, body = walk.path(route), walk.body(route)
            if any(field.name == "tenant" for field in route.query):
                path += f"{'&' if '?' in path else '?'}tenant={tenant}"
            elif isinstance(body, dict) and "tenant" in body:
                body = {**body, "tenant": tenant}
            else:
                continue
            answer = walk.server.call("other", route.method, path, body)
            code = (answer.get_json(silent=True) or {}).get("code")
            assert (answer.status_code, code) == (403, "forbidden"), (route.path, tenant)
            seen.add(route.path)
    lists = {"reservations", "applications", "events", "plan/changes", "plan/bars"}
    assert {f"/v1/{one}" for one in lists | {"webhooks", "holds"}} <= seen


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
    """Each request is judged by itself; all or nothing is nothing if one is of another."""
    asked = [{"rdl": ATOM, "tenant": one} for one in ("web", "ads", "web")]
    path = "/v1/reservations:batch"
    each = server.call("other", "POST", path, asked).get_json()["results"]
    assert [one["status"] for one in each] == [201, 403, 201]
    whole = server.call("other", "POST", f"{path}?atomic=true", asked)
    assert whole.status_code == 403


def test_keys_of_two_users_are_two(server: Guarded) -> None:
    """The same Idempotency-Key of another user is another key: it is no answer of another user."""
    body = {"rdl": ATOM}
    first, second, again = (
        server.call(one, "POST", "/v1/reservations", body, Idempotency_Key="k").get_json()
        for one in ("user", "other", "user")
    )
    assert (first["tenant"], second["tenant"]) == ("ads", "web")
    assert first == again


def test_an_application_under_another_tenants_reservation(server: Guarded) -> None:
    """To name the reservation of another user is as to name one that is not there."""
    for name in (f"{CONCEALED}-r", "unknown"):
        asked = {"application": APPLICATION, "reservation": name}
        answer = server.call("other", "POST", "/v1/applications", asked)
        assert answer.status_code == 404
