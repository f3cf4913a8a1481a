"""The law of the audit: each call that changes something leaves a row that names the call."""

from __future__ import annotations

from typing import Any

import pytest

from service.resources.table import ROUTES
from service.store import OptimizationRow
from service.store.audit import AUDIT_KINDS
from tests.service.access.walking import APPLICATION, ATOM
from tests.service.better_plan import found, two_in_the_way
from tests.service.conftest import Open, Service

#: What changes nothing, though it is no GET; and what an executor reports its own work.
SILENT = {
    "checkRdl",
    "findOffers",
    "testWebhook",
    "yarnNewReservation",
    "syncExecutor",
    "writeLogs",
}

_ARRIVAL_MS = 1_767_571_200_000
_STAGE = {
    "duration": 60_000,
    "num-containers": 1,
    "min-concurrency": 1,
    "capability": {"memory": 1024, "vCores": 1},
}


def _yarn(id_: str, hours: int) -> dict[str, Any]:
    definition = {
        "arrival": _ARRIVAL_MS,
        "deadline": _ARRIVAL_MS + hours * 3_600_000,
        "reservation-requests": {
            "reservation-request-interpreter": 0,
            "reservation-request": _STAGE,
        },
    }
    return {"reservation-id": id_, "reservation-definition": definition}


class Caller:
    """Makes calls, and remembers by which route each was made."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.made: dict[str, str] = {}

    def tick(self) -> None:
        """Let the dispatcher carry out what was asked."""
        self._service.runtime.dispatcher.tick()

    def call(self, route_name: str, /, body: Any = None, query: str = "", **path: str) -> Any:
        """Make the call of a route, which must do what it is asked; return the answer's body."""
        route = next(one for one in ROUTES if one.name == route_name)
        where = route.path
        for part, value in path.items():
            where = where.replace(f"{{{part}}}", value)
        headers = (
            {"If-Match": "*"}
            if route.method == "PUT" and ("id" in path or where == "/v1/cluster")
            else {}
        )
        answer = self._service.client.open(
            where + query, method=route.method, json=body, headers=headers
        )
        assert answer.status_code < 300, (route_name, answer.get_data(as_text=True))
        self.made[route_name] = f"{route.method} {where}"
        return answer.get_json(silent=True)


def _change_reservations(caller: Caller) -> None:
    call = caller.call
    call("createReservation", {"id": "r", "rdl": ATOM})
    call("createReservations", [{"id": "s", "rdl": ATOM}])
    call("replaceReservation", {"rdl": ATOM.replace("60, 60", "120, 120")}, id="r")
    call("closeReservation", id="s")
    call("cancelReservation", id="r")
    for id_ in ("h", "i"):
        call("createHold", {"id": id_, "rdl": ATOM})
    call("acceptHold", id="h")
    call("releaseHold", id="i")
    base = "?user.name=ann"
    yarn = call("yarnNewReservation", query=base)["reservation-id"]
    call("yarnSubmitReservation", {"queue": "default", **_yarn(yarn, 2)}, base)
    call("yarnUpdateReservation", _yarn(yarn, 3), base)
    call("yarnDeleteReservation", {"reservation-id": yarn}, base)


def _change_the_rest(caller: Caller) -> None:
    call = caller.call
    call("createApplication", {"id": "p", "application": APPLICATION})
    call("endApplication", id="p")
    load = {"rdl": f"load: {ATOM}", "stages": {"load": {"command": "true"}}}
    call("createPipeline", {"id": "q", **load})
    call("endApplication", id="q.load")
    caller.tick()
    call("runPipelineAgain", {"run": 0}, id="q")
    cluster = call("getCluster")
    call("replaceCluster", {**cluster, "queues": [{"name": "default"}]})
    call("addOutage", {"machines": "plain", "count": 1, "end": "+1h"})
    (outage,) = call("listOutages")["outages"]
    call("endOutage", id=str(outage["id"]))
    call("replaceDispatchPolicy", call("getDispatchPolicy"))
    call("setPolicy", {"type": "quota", "limit": {"cpu": 9}}, name="team")
    call("removePolicy", name="team")
    call("registerExecutor", {"instance": "i", "machines": ["plain-0"]}, id="e")
    call("removeExecutor", id="e")
    token = call("createToken", {"name": "new", "tenants": ["t"]})
    call("revokeToken", id=token["id"])
    hook = call("createWebhook", {"url": "https://example.org/", "kinds": ["ended"]})
    call("deleteWebhook", id=hook["id"])


def _change_jobs(caller: Caller, service: Service) -> None:
    call = caller.call
    two_in_the_way(service)
    id_ = found(service)
    call("applyOptimization", id=id_)
    call("undoOptimization", id=id_)
    call("forgetOptimization", id=id_)
    rows, now_ms = service.runtime.optimizations.rows, service.runtime.optimizations.now_ms()
    for prefix, noun in (("p-9", "Optimization"), ("c-9", "Comparison")):
        document = b'{"workload": null}'
        rows.add(OptimizationRow(prefix, now_ms, document, now_ms), most=1, prefix=prefix[:2])
        call(f"stop{noun}", id=prefix)
        call(f"forget{noun}", id=prefix)
    call("startOptimization", {"time_limit": 1})
    call("startComparison", {"agents": ["gree"], "time_limit": 1})


@pytest.mark.usefixtures("idle_jobs")
def test_each_call_that_changes_something_has_its_row(open_service: Open) -> None:
    """Every route but those that change nothing; what is not listed here fails."""
    service = open_service(executors=True, tick_s=0)
    caller = Caller(service)
    _change_reservations(caller)
    _change_the_rest(caller)
    _change_jobs(caller, service)

    changing = {route.name for route in ROUTES if route.method != "GET"}
    assert changing - caller.made.keys() <= SILENT, "make a call of each route here"
    changes = service.client.get("/v1/audit?limit=1000").get_json()["changes"]
    calls = {one["call"] for one in changes}
    silent = {name for name in changing & caller.made.keys() if caller.made[name] not in calls}
    assert silent <= SILENT
    assert {one["kind"] for one in changes} <= set(AUDIT_KINDS)


def test_what_is_asked_of_a_job_twice_has_one_row(open_service: Open) -> None:
    """A stop of what stops already, or is over, changes nothing, and has no row."""
    service = open_service(tick_s=0)
    rows, now_ms = service.runtime.optimizations.rows, service.runtime.optimizations.now_ms()
    rows.add(OptimizationRow("p-9", now_ms, b"{}", now_ms), most=9)
    for _ in range(2):
        assert service.client.post("/v1/optimizations/p-9/stop").status_code == 202
    changes = service.client.get("/v1/audit?kind=stop_optimization").get_json()["changes"]
    assert [(one["about"], one["user"]) for one in changes] == [("p-9", "local")]
