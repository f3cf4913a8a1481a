"""The Plan of a running server as a Plan document, read over HTTP like any client."""

from __future__ import annotations

from typing import Any

from service.cli.client.server import Server


def served_plan(server: Server) -> dict[str, Any]:
    """Return the whole Plan of a server in the form of plan files; nobody planned it in one run.

    Raises
    ------
    CliError
        If the server does not answer.
    """
    document: dict[str, Any] = server.call("GET", "/v1/plan/export").good()
    return {**document, "metrics": document["metrics"] | {"runtime_ms": None}}
