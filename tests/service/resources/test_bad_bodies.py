"""Bad bodies and queries over HTTP: each problem says where and what would be right."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.service.conftest import Service

_ATOM: Final = "atom(<1 cpu>, 1, 1, 1h, 1h)"


def error(pointer: str | None, message: str, fix: str | None, **more: Any) -> dict[str, Any]:
    """Return an entry of `errors`."""
    told = {"pointer": pointer, "span": None, "code": "malformed", "message": message, "fix": fix}
    return told | more


#: Method, path, body, the status, and all of the errors.
CASES: Final = (
    (
        "POST",
        "/v1/reservations",
        "{",
        400,
        [error("", "not JSON: Input data was truncated", "send one complete JSON value")],
    ),
    (
        "POST",
        "/v1/reservations",
        {"tenant": "ads"},
        400,
        [
            error(
                "/rdl",
                "'rdl' is missing",
                "give it: RDL as text, as JSON, or as YARN's reservation-definition",
            )
        ],
    ),
    (
        "POST",
        "/v1/reservations",
        {"rdl": _ATOM, "tenat": "ads", "weight": "high"},
        400,
        [
            error("/tenat", "unknown field 'tenat'", "did you mean 'tenant'?"),
            error("/weight", "weight: write a number, not a string", None),
        ],
    ),
    (
        "POST",
        "/v1/reservations",
        {"rdl": "atom(<1 cpu>, 4, 2, 1h, 4h)"},
        400,
        [error("/rdl", "min 4 is more than max 2", "write max=4 or more", span=[0, 27])],
    ),
    (
        "POST",
        "/v1/reservations",
        {"rdl": {"atom": {"bundle": {"cpu": 1}, "min": 1, "max": 1, "lease": 60, "wrk": 60}}},
        400,
        [error("/rdl/atom/wrk", "atom has no key 'wrk'", "did you mean 'work'?")],
    ),
    (
        "POST",
        "/v1/reservations",
        {"rdl": "window(train: atom(<1 cpu>, 1, 1, 2h, 2h), +0, +1h)"},
        422,
        [
            error(
                "/rdl",
                "train takes at least 2h, but its window, Mon 2026-01-05 00:00 to 01:00 (UTC), is "
                "1h",
                "leave it at least 2h, or ask for less",
                span=[14, 41],
                code="unsatisfiable",
            )
        ],
    ),
    (
        "POST",
        "/v1/reservations",
        {"rdl": _ATOM, "agent": "gree-x"},
        400,
        [error("/agent", "there is no agent 'gree-x'", "did you mean 'gree-l'?")],
    ),
    (
        "POST",
        "/v1/reservations",
        {"rdl": _ATOM, "queue": "bach"},
        400,
        [error("/queue", "there is no queue 'bach'; queues are default", None)],
    ),
    (
        "POST",
        "/v1/reservations",
        {"rdl": "atom(<1 gpu>, 1, 1, 1h, 1h)"},
        422,
        [
            error(
                "/rdl",
                "no machine has any gpu",
                "did you mean 'cpu'?",
                span=[0, 27],
                code="unsatisfiable",
            )
        ],
    ),
    (
        "GET",
        "/v1/reservations?from=tomorrow&limt=3",
        None,
        400,
        [
            error("?limt", "unknown field 'limt'", "did you mean 'limit'?"),
            error(
                "?from",
                "from: 'tomorrow' is not a duration; write seconds (90), a duration (2h), +2h or "
                "2026-01-05T09:00:00Z",
                None,
            ),
        ],
    ),
    (
        "POST",
        "/v1/holds",
        {"rdl": _ATOM, "time": "5m"},
        400,
        [error("/time", "time: must be above 0 and at most 60 s", None)],
    ),
    (
        "POST",
        "/v1/cluster/outages",
        {"machines": "plane", "count": 1, "end": "+1h"},
        400,
        [error("/machines", "no machines are called 'plane'", "did you mean 'plain'?")],
    ),
    (
        "PUT",
        "/v1/reservations/a",
        {"rdl": _ATOM},
        428,
        [
            error(
                None, 'send If-Match: "REVISION", as the ETag says', None, code="revision_required"
            )
        ],
    ),
    (
        "POST",
        "/v1/comparisons",
        {"agents": ["gree", "milk"]},
        400,
        [error("/agents/1", "there is no agent 'milk'", "did you mean 'milp'?")],
    ),
)


@pytest.mark.parametrize(("method", "path", "body", "status", "errors"), CASES)
def test_bad_calls(
    service: Service, method: str, path: str, body: Any, status: int, errors: list[dict[str, Any]]
) -> None:
    """The errors, whole: pointer or parameter, span in RDL text, message and fix."""
    data = body if isinstance(body, str | None) else json.dumps(body)
    answer = service.client.open(path, method=method, data=data, content_type="application/json")
    assert (answer.status_code, answer.get_json()["errors"]) == (status, errors)
