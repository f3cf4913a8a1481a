"""`GET /v1/report`: a month by tenant, queue or user, against what was posted."""

from __future__ import annotations

from typing import Any

import pytest

from rdl.durations import parse_instant
from service.access.user import Actor, Role, User
from service.resources.report import ReportQuery, get_report
from service.store.audit import AuditRow, write_audit
from tests.service.applying import an_application, submit_one
from tests.service.conftest import Service

_BOB = User("bob", Role.USER, frozenset({"ml"}))
_HOUR = "window(atom(<1 cpu>, 4, 4, 1h, 4h), 0, 1h)"


def _report(service: Service, query: str) -> Any:
    answer = service.client.get(f"/v1/report?{query}")
    assert answer.status_code == 200, answer.get_data(as_text=True)
    return answer.get_json()


def _rows(service: Service, query: str) -> dict[str | None, Any]:
    return {one["name"]: one for one in _report(service, query)["rows"]}


def test_core_hours_are_those_within_the_time(still: Service) -> None:
    """Four cores for an hour are four core-hours; half of the hour has two."""
    still.reserve("a", _HOUR, tenant="ads")
    whole, half = (_rows(still, f"from=0&to={end}")["ads"] for end in ("2h", "30m"))
    assert (whole["promised_core_hours"], half["promised_core_hours"]) == (4, 2)
    assert (whole["promised"], whole["kept"], whole["kept_core_hours"]) == (1, 1, 4)
    assert (whole["peak_cores"], whole["refused"]) == (4, 0)


def test_the_peak_is_of_what_is_held_at_the_same_time(still: Service) -> None:
    """Two that overlap add up, one after them does not; the total peaks by itself."""
    still.reserve("a", _HOUR, tenant="ads")
    still.reserve("b", "window(atom(<1 cpu>, 3, 3, 30m, 90m), 30m, 1h)", tenant="ads")
    still.reserve("c", "window(atom(<1 cpu>, 5, 5, 1h, 5h), 1h, 2h)", tenant="ml")
    body = _report(still, "from=0&to=3h")
    rows = {one["name"]: one for one in body["rows"]}
    assert (rows["ads"]["peak_cores"], rows["ml"]["peak_cores"]) == (7, 5)
    assert body["total"]["peak_cores"] == 7
    assert body["total"]["promised_core_hours"] == 4 + 1.5 + 5


def test_refusals_count_with_what_they_asked_for(still: Service) -> None:
    """What does not fit alongside another is refused: its count and core-hours are its tenant's."""
    still.reserve("a", "window(atom(<1 cpu>, 10, 10, 1h, 10h), 0, 1h)", tenant="ads")
    asked = {"rdl": "window(atom(<1 cpu>, 6, 6, 1h, 6h), 0, 1h)", "id": "no", "tenant": "ml"}
    assert still.client.post("/v1/reservations", json=asked).status_code == 409
    rows = _rows(still, "from=0&to=1h")
    assert (rows["ml"]["refused"], rows["ml"]["refused_core_hours"]) == (1, 6)
    assert rows["ads"]["refused"] == 0


def test_used_is_what_core_components_ran(still: Service) -> None:
    """Two cores that run for half an hour of the hour asked about are one core-hour."""
    still.reserve("a", _HOUR, tenant="ads")
    submit_one(still, "x", an_application(2), tenant="ads", reservation="a")
    still.runtime.dispatcher.tick()
    still.clock.advance(1800)
    used = _rows(still, "from=0&to=1h")["ads"]["used_core_hours"]
    assert used == pytest.approx(1.0, abs=0.01)


def test_used_counts_elastic_components_while_they_run(still: Service) -> None:
    """One core for an hour, and three elastic ones for the half of it in which they fit."""
    still.reserve("a", _HOUR, tenant="ads")
    submit_one(still, "x", an_application(1, 3), tenant="ads", reservation="a")
    still.runtime.dispatcher.tick()
    still.runtime.dispatcher.tick()  # those that it started run
    still.clock.advance(1800)
    still.client.delete("/v1/applications/x")
    still.runtime.dispatcher.tick()
    still.runtime.dispatcher.tick()
    still.clock.advance(1800)
    parts = (_rows(still, f"from={span}")["ads"] for span in ("0&to=1h", "0&to=15m", "15m&to=1h"))
    used = [one["used_core_hours"] for one in parts]
    assert used == pytest.approx([2.0, 1.0, 1.0], abs=0.02)
    assert still.client.get("/v1/applications").get_json()["applications"][0]["state"] == "killed"


def test_cancelled_promises_are_apart(still: Service) -> None:
    """What its owner gave up is no promise, and has no core-hours."""
    still.reserve("a", _HOUR, tenant="ads")
    assert still.client.delete("/v1/reservations/a").status_code == 200
    row = _report(still, "from=0&to=1h")["total"]
    assert (row["promised"], row["cancelled"], row["promised_core_hours"]) == (0, 1, 0)


def test_rows_by_queue_and_by_user(still: Service) -> None:
    """The same total, apart by queue or by who asked."""
    still.reserve("a", _HOUR, tenant="ads")
    for by, name in (("queue", "default"), ("user", "local")):
        body = _report(still, f"from=0&to=1h&by={by}")
        assert [one["name"] for one in body["rows"]] == [name]
        assert body["rows"][0]["promised_core_hours"] == body["total"]["promised_core_hours"] == 4


def test_tenants_of_others_are_one_row(still: Service) -> None:
    """A user reads its own tenants, and all others together, last."""
    for tenant in ("ads", "feed", "ml"):
        still.reserve(tenant, "window(atom(<1 cpu>, 1, 1, 10m, 10m), 0, 10m)", tenant=tenant)
    query = ReportQuery(from_=parse_instant("0"), to=parse_instant("600"))
    rows = get_report(still.runtime, _BOB, query).rows
    assert [(one.name, one.promised) for one in rows] == [("ml", 1), (None, 2)]


def test_a_time_that_is_none_is_an_error(still: Service) -> None:
    """A time ends after it starts."""
    answer = still.client.get("/v1/report?from=2h&to=1h")
    assert (answer.status_code, answer.get_json()["errors"][0]["pointer"]) == (400, "?from")


def test_what_is_refused_counts_cores_as_what_is_promised_does(still: Service) -> None:
    """A request of much memory and one core is a core for its time, however scarce its memory."""
    asked = {"rdl": "window(atom(<1 cpu, 900 TiB memory>, 1, 1, 1h, 1h), 0, 1h)", "id": "no"}
    assert still.client.post("/v1/reservations", json=asked).status_code >= 400
    still.reserve("a", "window(atom(<1 cpu>, 10, 10, 1h, 10h), 0, 1h)", tenant="ads")
    full = {"rdl": "window(atom(<1 cpu>, 2, 2, 1h, 2h), 0, 1h)", "id": "full", "tenant": "ads"}
    assert still.client.post("/v1/reservations", json=full).status_code == 409
    assert _rows(still, "from=0&to=1h")["ads"]["refused_core_hours"] == 2


def test_an_application_of_the_same_id_is_of_its_own_user(still: Service) -> None:
    """Who submitted an application named like a reservation is not who asked for that."""
    still.reserve("same", _HOUR, tenant="ads")
    row = AuditRow(
        Actor(User("mia", Role.USER, frozenset({"ml"})), "", "POST /v1/applications"),
        still.runtime.clock_ms(),
        "submit_application",
        "same",
        "ads",
    )
    with still.runtime.store._engine.begin() as connection:
        write_audit(connection, row)
    rows = _rows(still, "from=0&to=1h&by=user")
    assert [(name, one["promised"]) for name, one in rows.items()] == [("local", 1)]
