"""The Plan of a running server as a Plan document, read over HTTP like any client."""

from __future__ import annotations

from typing import Any, Final

from planner.files import PlanDocument, cluster_from_json
from planner.workload.reload import metrics_of, plan_of_document
from service.cli.client.reservations import PATH, listed
from service.cli.client.server import Server

#: What an API entry carries beyond the plan file's.
_SERVED_ONLY: Final = frozenset(
    {
        "version", "history", "begin", "begin_at", "finish", "finish_at", "window", "held_until",
    }
)  # fmt: skip


def served_plan(server: Server) -> dict[str, Any]:
    """Return the whole Plan of a server in the form of plan files, its metrics measured anew.

    Raises
    ------
    CliError
        If the server does not answer.
    """
    cluster = server.call("GET", "/v1/cluster").good()
    entries = [
        {name: value for name, value in entry.items() if name not in _SERVED_ONLY}
        for entry in listed(server, {})
    ]
    reservations = [entry for entry in entries if entry["state"] != "refused"]
    refusals = [entry for entry in entries if entry["state"] == "refused"]
    for refusal in refusals:
        del refusal["state"]
    document = PlanDocument(
        cluster,
        server.call("GET", PATH, query={"limit": 1}).good()["version"],
        cluster_from_json(cluster).grid().seconds(1),
        ", ".join(sorted({str(entry["agent"]) for entry in reservations})) or "none",
        "submitted",
        tuple(reservations),
        tuple(refusals),
        metrics={},
    )
    metrics = metrics_of(plan_of_document(document, server.url)).to_json()
    return {**document.to_json(), "metrics": metrics | {"runtime_ms": None}}
