"""The audit: every change has its row, with who, when, from where and what."""

from __future__ import annotations

from typing import Any

import pytest

from service.commits.commands import Closure
from service.store.audit import AUDIT_KINDS
from tests.patience import eventually
from tests.service.access.walking import APPLICATION, ATOM, Guarded, guarded
from tests.service.better_plan import found, two_in_the_way
from tests.service.conftest import Open, Service

LONG = "window(atom(<1 cpu>, 8, 8, 600, 4800), 0, 14400)"


@pytest.fixture
def server(open_service: Open) -> Guarded:
    """Return a service behind a proxy that asks for tokens."""
    return guarded(open_service, tick_s=0, proxies=("127.0.0.1",))


def changes(server: Guarded, query: str = "") -> list[dict[str, Any]]:
    """Return what the audit lists, oldest first."""
    answer = server.call("operator", "GET", f"/v1/audit{query}")
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return list(reversed(answer.get_json()["changes"]))


def _words(change: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(change[name] for name in ("user", "kind", "tenant", "about", "detail"))


def test_each_kind_of_change_has_its_row(server: Guarded) -> None:
    """What clients do to reservations, applications, cluster and tokens, in order."""
    call = server.call
    call("user", "POST", "/v1/reservations", {"id": "a", "rdl": ATOM})
    call("user", "POST", "/v1/reservations", {"id": "x", "rdl": ATOM.replace("1, 1", "99, 99")})
    call("user", "PUT", "/v1/reservations/a", {"rdl": ATOM}, If_Match="*")
    call("user", "POST", "/v1/applications", {"id": "p", "application": APPLICATION})
    call("user", "DELETE", "/v1/applications/p")
    call("user", "DELETE", "/v1/applications/p")
    call("operator", "DELETE", "/v1/reservations/a")
    cluster = call("operator", "GET", "/v1/cluster").get_json()
    other = {**cluster, "queues": [{"name": "default"}]}
    call("operator", "PUT", "/v1/cluster", other, If_Match="*")
    made = call("admin", "POST", "/v1/tokens", {"name": "new", "tenants": ["t"]}).get_json()
    call("admin", "DELETE", f"/v1/tokens/{made['id']}")

    found = [_words(one) for one in changes(server) if one["user"] != "server"]
    refused = next(one for one in found if one[1] == "refuse")
    assert refused[:4] == ("ann", "refuse", "ads", "x")
    assert [one for one in found if one is not refused] == [
        ("ann", "admit", "ads", "a", ""),
        ("ann", "update", "ads", "a", "renegotiated"),
        ("ann", "submit_application", "ads", "p", ""),
        ("ann", "end_application", "ads", "p", ""),
        ("otto", "end", "ads", "a", "cancelled"),
        ("otto", "cluster", "", "", ""),
        ("ada", "create_token", "", made["id"], "new user t"),
        ("ada", "revoke_token", "", made["id"], ""),
    ]
    assert {one["kind"] for one in changes(server)} <= set(AUDIT_KINDS)


def test_what_is_changed_alongside_the_plan_has_its_row(open_service: Open) -> None:
    """Holds that are kept, webhooks and executors: in order, and found by kind."""
    server = guarded(open_service, tick_s=0, executors=True, webhook_networks=("127.0.0.0/8",))
    call = server.call
    call("user", "POST", "/v1/holds", {"id": "h", "rdl": ATOM})
    call("user", "POST", "/v1/holds/h/accept")
    asked = {"url": "http://127.0.0.1:9/", "kinds": ["ended"]}
    hook = call("user", "POST", "/v1/webhooks", asked)
    call("user", "DELETE", f"/v1/webhooks/{hook.get_json()['id']}")
    registration = {"instance": "i", "machines": ["plain-0"]}
    for _ in range(2):
        assert call("operator", "PUT", "/v1/executors/e", registration).status_code < 300
    assert call("operator", "DELETE", "/v1/executors/e").status_code == 200

    found = [_words(one) for one in changes(server) if one["user"] != "server"]
    assert found == [
        ("ann", "admit", "ads", "h", ""),
        ("ann", "hold_accepted", "ads", "h", ""),
        ("ann", "create_webhook", "ads", hook.get_json()["id"], "ended"),
        ("ann", "delete_webhook", "ads", hook.get_json()["id"], "ended"),
        ("otto", "register_executor", "", "e", "plain-0"),
        ("otto", "remove_executor", "", "e", ""),
    ]
    for one in found:
        assert one in [_words(each) for each in changes(server, f"?kind={one[1]}")]


def test_a_row_says_when_from_where_and_by_which_call(server: Guarded) -> None:
    """The address is the one that a known proxy tells; the version is that of the commit."""
    body = server.call(
        "user", "POST", "/v1/reservations", {"id": "a", "rdl": ATOM},
        X_Forwarded_For="192.0.2.9, 10.1.2.3",
    ).get_json()  # fmt: skip
    (row,) = changes(server, "?about=a")
    assert (row["address"], row["call"]) == ("10.1.2.3", "POST /v1/reservations")
    assert (row["version"], row["at"]) == (body["version"], "2026-01-05T00:00:00Z")


def test_what_an_outage_does_is_in_it(server: Guarded) -> None:
    """The second way to commit, for what was found on a copy of the Plan, writes the audit too."""
    server.call("user", "POST", "/v1/reservations", {"id": "a", "rdl": LONG})
    lost = {"machines": "plain", "count": 5, "end": "+4h"}
    affected = server.call("operator", "POST", "/v1/cluster/outages", lost)
    assert affected.status_code == 201, affected.get_data(as_text=True)
    moved: list[dict[str, Any]] = []

    def has_moved() -> bool:
        moved[:] = [one for one in changes(server, "?about=a") if one["kind"] != "admit"]
        return bool(moved)

    eventually(has_moved)
    assert all(one["version"] and one["user"] == "server" for one in moved)
    by_call = [one for one in changes(server) if one["kind"] == "cluster"]
    assert [(one["user"], one["call"]) for one in by_call] == [("otto", "POST /v1/cluster/outages")]


def test_filters_and_pages(server: Guarded) -> None:
    """Each filter leaves the others out; pages, newest first, have every row once."""
    for number in range(5):
        walker = ("user", "other")[number % 2]
        asked = {"id": f"r{number}", "rdl": ATOM}
        assert server.call(walker, "POST", "/v1/reservations", asked).status_code == 201
        server.service.clock.advance(60)
    ids = [f"r{number}" for number in range(5)]

    def listed(query: str) -> list[str]:
        return [one["about"] for one in changes(server, query) if one["about"] in ids]

    assert listed("?user=ann") == listed("?tenant=ads") == ["r0", "r2", "r4"]
    assert listed("?about=r3&kind=admit") == ["r3"]
    assert listed("?kind=refuse") == []
    assert listed("?from=120&to=240") == ["r2", "r3"]

    pages, cursor = [], ""
    while cursor is not None:
        body = server.call("operator", "GET", f"/v1/audit?kind=admit&limit=2{cursor}").get_json()
        pages += [one["about"] for one in body["changes"]]
        cursor = None if body["next"] is None else f"&cursor={body['next']}"
    assert pages == list(reversed(ids))


def test_what_changes_nothing_is_not_in_it(server: Guarded) -> None:
    """A dry run, a check and a conflict leave no row."""
    before = len(changes(server))
    server.call("user", "POST", "/v1/reservations?dry_run=true", {"rdl": ATOM})
    server.call("user", "POST", "/v1/rdl/check", {"rdl": ATOM})
    server.call("user", "DELETE", "/v1/reservations/none")
    assert len(changes(server)) == before


def test_it_outlives_the_log(open_service: Open) -> None:
    """When the log is pruned behind a snapshot, the audit is whole."""
    server = guarded(open_service, tick_s=0, snapshot_every=1)
    store = server.service.runtime._replica.store
    for number in range(3):
        server.call("user", "POST", "/v1/reservations", {"id": f"r{number}", "rdl": ATOM})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.store.store.KEPT_BEHIND", 0)
        server.call("user", "POST", "/v1/reservations", {"id": "r3", "rdl": ATOM})
        eventually(lambda: store.tail(0) is None)
    assert [one["about"] for one in changes(server, "?kind=admit")] == ["r0", "r1", "r2", "r3"]


def test_what_the_server_does_is_its_own(server: Guarded) -> None:
    """A change that no call asked for is by the user `server`."""
    runtime = server.service.runtime
    server.call("user", "POST", "/v1/reservations", {"id": "a", "rdl": ATOM})
    runtime.planner.change(Closure("a", None))
    assert [(one["user"], one["kind"]) for one in changes(server, "?about=a")] == [
        ("ann", "admit"), ("server", "end"),
    ]  # fmt: skip


def test_an_optimisation_that_is_applied_is_in_it(service: Service) -> None:
    """Each change that it made has a row by whoever applied it, and so has the act itself."""
    two_in_the_way(service)
    id_ = found(service)
    assert service.client.post(f"/v1/optimizations/{id_}/apply").status_code == 200
    call = f"POST /v1/optimizations/{id_}/apply"
    listed = service.client.get("/v1/audit").get_json()["changes"]
    applied = [one for one in listed if one["call"] == call]
    assert applied
    assert {(one["user"], one["address"]) for one in applied} == {("local", "127.0.0.1")}
    assert {one["kind"] for one in applied} == {"admit", "update", "apply_optimization"}
    assert service.client.post(f"/v1/optimizations/{id_}/undo").status_code == 200
    listed = service.client.get("/v1/audit").get_json()["changes"]
    undone = [one for one in listed if one["call"] == f"POST /v1/optimizations/{id_}/undo"]
    assert {one["kind"] for one in undone} == {"end", "update", "undo_optimization"}
