"""What YARN's clients send and are answered, as facts of its wire."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from werkzeug.test import TestResponse

from tests.service.conftest import Service

BASE: Final = "/ws/v1/cluster/reservation"
ID: Final = "reservation_1404198295326_0003"

#: The first is a multiple of the period, 2030-01-01T00:00:00Z.
ARRIVAL: Final = 1_893_456_000_000
MINUTE: Final = 60_000
PERIOD: Final = 4 * 3600 * 1000

#: 2029-12-31T20:00:00Z: the clock of the tests.
NOW: Final = ARRIVAL - 4 * 3600 * 1000

CLUSTER: Final = """
step = "60s"
horizon = "24h"
max_period = "24h"
origin = 2029-12-31T20:00:00Z

[[machines]]
name = "plain"
count = 30
resources = { cpu = 16, memory = "64 GiB" }

[[queues]]
name = "dedicated"

[[queues]]
name = "default"

[[queues]]
name = "rest"
reservable = false
"""

CAPABILITY: Final = {"memory": 1024, "vCores": 1}


def stage(containers: int, gang: int, duration: int = MINUTE) -> dict[str, Any]:
    """Return a reservation-request."""
    return {
        "duration": duration,
        "num-containers": containers,
        "min-concurrency": gang,
        "capability": dict(CAPABILITY),
    }


#: A gang of 220 for a minute, or 110 one by one for two.
EITHER: Final = [stage(220, 220), stage(110, 1, 2 * MINUTE)]


def definition(
    stages: Any = None, interpreter: int = 0, window: int = 12 * MINUTE, **more: Any
) -> dict[str, Any]:
    """Return a reservation-definition; a member of `more` that is None is left out."""
    whole = {
        "arrival": ARRIVAL,
        "deadline": ARRIVAL + window,
        "reservation-name": "res_1",
        "priority": 0,
        "reservation-requests": {
            "reservation-request-interpreter": interpreter,
            "reservation-request": EITHER if stages is None else stages,
        },
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    return {name: value for name, value in whole.items() if value is not None}


def submission(
    id_: str | None = ID, queue: str | None = "dedicated", **more: Any
) -> dict[str, Any]:
    """Return the body of a submission."""
    body = {
        "queue": queue,
        "reservation-id": id_,
        "reservation-definition": more.pop("asked", None) or definition(**more),
    }
    return {name: value for name, value in body.items() if value is not None}


#: The complete example: every four hours.
EXAMPLE: Final = submission(recurrence_expression=str(PERIOD))


def call(
    service: Service, path: str, body: Any = None, user: str | None = "alice", **query: Any
) -> TestResponse:
    """Make a call with a JSON body, or a GET of a list."""
    given = {name.replace("_", "-"): value for name, value in query.items()}
    if user is not None:
        given["user.name"] = user
    url = f"{BASE}/{path}?{urlencode(given)}"
    if path == "list":
        return service.client.get(url)
    return service.client.post(url, json=body) if body is not None else service.client.post(url)


def submit(service: Service, id_: str = ID, **more: Any) -> None:
    """Submit what must be accepted."""
    answer = call(service, "submit", submission(id_, **more))
    assert answer.status_code == 202, answer.get_data(as_text=True)


def listed(service: Service, **query: Any) -> list[dict[str, Any]]:
    """Return what a list shows, one entry or several."""
    query.setdefault("queue", "dedicated")
    answer = call(service, "list", **query)
    assert answer.status_code == 200, answer.get_data(as_text=True)
    shown = answer.get_json().get("reservations", [])
    return [shown] if isinstance(shown, dict) else shown


def ids(service: Service, **query: Any) -> list[str]:
    """Return the ids that a list shows."""
    return [entry["reservation-id"] for entry in listed(service, **query)]
