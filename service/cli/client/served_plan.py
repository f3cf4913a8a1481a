"""The Plan of a running server as a Plan document, read over HTTP like any client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from planner.cluster import Cluster
from planner.files import WorkloadLine, cluster_from_json
from planner.metrics import RequestOutcome, measure
from planner.value import prices_of, size_of
from planner.workload.compile import compile_line
from rdl.expressions import AnyOf, Expression, children_of
from rdl.resources import Resources
from rdl.time_grid import TimeGrid
from service.cli.client.reservations import listed
from service.cli.client.server import Server

#: What an API entry carries beyond the plan file's.
_SERVED_ONLY: Final = frozenset({"version", "history"})
_KEPT_ITS_WORD: Final = frozenset({"accepted", "active", "completed", "cancelled"})


def served_plan(server: Server) -> dict[str, Any]:
    """Return the whole Plan of a server in the form of plan files, its metrics measured anew.

    Raises
    ------
    CliError
        If the server does not answer.
    """
    described = server.call("GET", "/v1/cluster").good()
    cluster = cluster_from_json(described)
    entries = [
        {name: value for name, value in entry.items() if name not in _SERVED_ONLY}
        for entry in listed(server, {})
    ]
    reservations = [entry for entry in entries if entry["state"] != "refused"]
    refusals = [_without_state(entry) for entry in entries if entry["state"] == "refused"]
    grid = cluster.grid()
    outcomes = [_outcome(entry, cluster, grid) for entry in entries]
    metrics = measure(
        outcomes, cluster.nominal, grid.horizon, prices=prices_of(cluster, grid)
    ).to_json()
    agents = sorted({str(entry["agent"]) for entry in reservations})
    return {
        "cluster": described,
        "version": _version(server),
        "step_s": grid.seconds(1),
        "agent": ", ".join(agents) or "none",
        "order": "submitted",
        "reservations": reservations,
        "refusals": refusals,
        "metrics": metrics | {"runtime_ms": None},
    }


def _version(server: Server) -> int:
    page = server.call("GET", "/v1/reservations", query={"limit": 1}).good()
    return int(page["version"])


def _without_state(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != "state"}


def _outcome(entry: Mapping[str, Any], cluster: Cluster, grid: TimeGrid) -> RequestOutcome:
    line = WorkloadLine(
        entry["id"], entry["expression"], submitted_ms=round(entry["submitted"] * 1000)
    )
    graph = compile_line(line, cluster, grid).graph
    size = size_of(graph, cluster.nominal)
    if entry["state"] not in _KEPT_ITS_WORD:
        return RequestOutcome(entry["weight"], size, accepted=False)
    held = [
        (Resources.from_json(atom["bundle"]), _rows(atom["allocation"], grid))
        for atom in entry["atoms"]
    ]
    worth = _worth(graph.expression, entry["choices"])
    return RequestOutcome(entry["weight"], size, accepted=True, worth=worth, held=tuple(held))


def _rows(allocation: list[list[float]], grid: TimeGrid) -> np.ndarray[Any, np.dtype[np.int64]]:
    rows = [
        (grid.floor(round(start * 1000)), grid.floor(round(end * 1000)), bundles)
        for start, end, bundles in allocation
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _worth(expression: Expression, choices: Mapping[str, int]) -> float:
    """Return the product of `prefer` of the options taken; `choices` goes by source path."""
    worth = 1.0
    for path, option in choices.items():
        chosen = _at(expression, path)
        if isinstance(chosen, AnyOf) and chosen.prefer is not None:
            worth *= chosen.prefer[option]
    return worth


def _at(expression: Expression, path: str) -> Expression:
    """Return the expression at a source path (occurrence numbers do not change it)."""
    for child in path.split(".") if path else ():
        expression = children_of(expression)[int(child.partition("@")[0])]
    return expression
