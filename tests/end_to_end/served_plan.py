"""The Plan that a server shows, and what the validator says of it."""

from __future__ import annotations

from typing import Any

from planner.files import cluster_from_json
from planner.validation.document import PlanViolation
from planner.validation.validate import validate
from tests.end_to_end.server_process import Client

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
        _, page = client.call("GET", f"/v1/reservations?limit=1000{cursor}")
        found += page["reservations"]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


def violations(client: Client) -> list[PlanViolation]:
    """Return what the validator finds wrong with the Plan as it is served."""
    entries = everything(client)
    _, served = client.call("GET", "/v1/plan")
    _, described = client.call("GET", "/v1/cluster")
    document = {
        "cluster": described,
        "step_s": served["step"],
        "reservations": [entry for entry in entries if entry["state"] != "refused"],
        "refusals": [entry for entry in entries if entry["state"] == "refused"],
    }
    grid = cluster_from_json(described).grid()
    return validate(document, grid=grid.with_horizon(grid.floor(1000 * served["to"])))
