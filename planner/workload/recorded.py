"""The recorded runs of a workload, as a plan alongside those of agents."""

from __future__ import annotations

from typing import Any

import numpy as np

from planner.cluster.cluster import Cluster
from planner.files.cluster_writer import cluster_to_json
from planner.files.plan_document import PlanDocument
from planner.metrics import Metrics, RequestOutcome, measure
from planner.request import Request
from planner.reservations.state import State
from planner.value import size_of
from planner.workload.compile import CompiledWorkload
from rdl.text.formatter import format_expression
from rdl.time_grid import TimeGrid, seconds_of
from rdl.work_graph import ATOM, BUNDLE, KIND, MAX_HEIGHT, SHIFT_COUNT

#: Name used instead of an agent's.
RECORDED_NAME = "as recorded"

#: Code of a request without a run in the log.
NOT_RECORDED = "not_recorded"


def recorded_plan(
    cluster: Cluster, workload: CompiledWorkload
) -> tuple[Metrics, PlanDocument] | None:
    """Return metrics and plan file of the recorded runs, None if no line has a recorded run.

    A request that ran counts as accepted with its value, whenever it ended. Its bundles are
    allocated from its recorded start to its recorded end; the use of each part of a request with
    several parts is unknown, so such a request counts but has no allocation. Windows, capacity and
    policies do not apply: the plan is for reading, not for validation, and bounds do not apply to
    it.
    """
    if not workload.recorded:
        return None
    outcomes: list[RequestOutcome] = []
    ran: list[dict[str, Any]] = []
    never: list[dict[str, Any]] = []
    for request in workload.requests:
        size, run = size_of(request.graph, cluster.reference), workload.recorded.get(request.id)
        if run is None:
            outcomes.append(RequestOutcome(request.weight, size, accepted=False))
            never.append(_header(request.id, request) | _missing())
            continue
        atoms = _atoms(request, run)
        held = tuple(
            (request.graph.bundles[bundle], _steps(run, height, workload.grid))
            for bundle, height in atoms
        )
        outcomes.append(RequestOutcome(request.weight, size, accepted=True, held=held))
        ran.append(_header(request.id, request) | _entry(request, run, atoms))
    for one in workload.refusals:
        outcomes.append(RequestOutcome(one.line.weight, 0.0, accepted=False))
        never.append(_header(one.line.id, one.line) | _missing("its request cannot be read"))
    metrics = measure(outcomes, cluster.nominal, workload.grid.horizon, status="recorded")
    document = PlanDocument(
        cluster_to_json(cluster), 0, workload.grid.seconds(1), RECORDED_NAME, "submitted",
        tuple(ran), tuple(never), metrics.to_json(),
    )  # fmt: skip
    return metrics, document


def _atoms(request: Request, run: tuple[int, int]) -> list[tuple[int, int]]:
    """Return (bundle index, bundles) of a run; empty if it has several parts or no duration."""
    atoms = [row for row in request.graph.vertices if row[KIND] == ATOM]
    if len(atoms) != 1 or int(atoms[0][SHIFT_COUNT]) != 1 or run[1] <= run[0]:
        return []
    return [(int(atoms[0][BUNDLE]), int(atoms[0][MAX_HEIGHT]))]


def _steps(run: tuple[int, int], height: int, grid: TimeGrid) -> np.ndarray[Any, Any]:
    first = run[0] // grid.step_ms
    return np.array([[first, max(first + 1, -(-run[1] // grid.step_ms)), height]], dtype=np.int64)


def _header(id_: str, of: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "tenant": of.tenant,
        "queue": of.queue,
        "submitted": seconds_of(of.submitted_ms),
        "weight": float(of.weight),
        "priority": of.priority,
    }


def _entry(request: Request, run: tuple[int, int], atoms: list[tuple[int, int]]) -> dict[str, Any]:
    start, end = map(seconds_of, run)
    return {
        "state": State.COMPLETED.value,
        "revision": 1,
        "agent": RECORDED_NAME,
        "expression": format_expression(request.graph.expression),
        "choices": {},
        "notes": [],
        "promise": "pooled",
        "atoms": [
            {
                "path": "",
                "bundle": request.graph.bundles[bundle].to_json(),
                "allocation": [[start, end, height]],
            }
            for bundle, height in atoms
        ],
    }


def _missing(detail: str = "the log has no run of this request") -> dict[str, Any]:
    return {"code": NOT_RECORDED, "detail": detail, "binding": None, "offers": []}
