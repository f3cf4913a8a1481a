"""The Plan that a server shows, and what the validator says of it."""

from __future__ import annotations

from typing import Any

from planner.files import cluster_from_json
from planner.validation.document import PlanViolation
from planner.validation.validate import validate
from tests.end_to_end.server_process import Client
from tests.patience import eventually

CLUSTER = """
step = "60s"
horizon = "24h"

[[machines]]
name = "plain"
count = 40
resources = { cpu = 4, memory = "16 GiB" }
"""


def everything(client: Client) -> list[dict[str, Any]]:
    """Return all reservations and refusals, page by page."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = _read(client, f"/v1/reservations?limit=1000{cursor}")
        found += page["reservations"]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


def _read(client: Client, path: str) -> Any:
    """Return the answer of 200; 503 is asked again, as a worker that lost its database says it."""
    code, body = eventually(lambda: client.call("GET", path), lambda answer: answer[0] != 503)
    assert code == 200, body
    return body


def violations(client: Client) -> list[PlanViolation]:
    """Return what the validator finds wrong with the Plan as it is served."""
    entries = everything(client)
    served, described = _read(client, "/v1/plan"), _read(client, "/v1/cluster")
    document = {
        "cluster": described,
        "step_s": served["step"],
        "reservations": [entry for entry in entries if entry["state"] != "refused"],
        "refusals": [entry for entry in entries if entry["state"] == "refused"],
    }
    grid = cluster_from_json(described).grid()
    return validate(document, grid=grid.with_horizon(grid.floor(1000 * served["to"])))
