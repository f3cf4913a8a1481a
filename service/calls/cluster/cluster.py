"""Read the cluster's description and change it while the server runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.adaptation.adapter import adapt
from planner.cluster.cluster import Cluster
from service.calls.cluster.left_machines import traces
from service.commits.answers.responses import render_cluster
from service.commits.changes.commands import Reconfiguration
from service.commits.screening.revision_check import cluster_tag, stale_cluster_problem
from service.planning.adaptation import EFFORT
from service.problems import ApiError, ApiProblemError, malformed_problem
from service.replication.cluster_trial import too_costly
from service.response import Response
from service.runtime import Runtime


def present_cluster(runtime: Runtime) -> tuple[Cluster, str]:
    """Return the cluster's description and its tag."""
    with runtime.reading() as plan:
        return plan.cluster, cluster_tag(plan.cluster)


def reconfigure(runtime: Runtime, wanted: Cluster, tag: str | None) -> Response:
    """Plan on another description of the cluster from now on.

    Raises
    ------
    ApiProblemError
        ``malformed`` when it changes the step or the origin, which every promise is counted from.
    """
    whole = _whole(runtime, wanted)
    return runtime.planner.respond(Reconfiguration(whole, tag), render_cluster)


def _whole(runtime: Runtime, wanted: Cluster) -> Cluster:
    """Return a description that is asked for, with the Plan's origin.

    What work has left a machine for in this very step stays in it (`traces`).
    """
    present, _ = present_cluster(runtime)
    errors = []
    if wanted.step_ms != present.step_ms:
        errors.append(ApiError("the step of a plan cannot change", pointer="/step"))
    if wanted.origin not in (None, present.origin):
        errors.append(ApiError("the origin of a plan cannot change", pointer="/origin"))
    if errors:
        raise malformed_problem(errors)
    step = runtime.now_ms() // present.step_ms
    with runtime.reading() as plan:
        kept = traces(plan, wanted, step)
    return replace(wanted, origin=present.origin, outages=(*wanted.outages, *kept))


def present_version(runtime: Runtime) -> int:
    """Return the version of the Plan."""
    with runtime.reading() as plan:
        return plan.version


def rehearse_reconfiguration(runtime: Runtime, wanted: Cluster, tag: str | None) -> dict[str, Any]:
    """Return who would be affected by another description; nothing is changed.

    Raises
    ------
    ApiProblemError
        As :func:`reconfigure`, ``stale_revision`` and ``unplannable_cluster``.
    """
    whole = _whole(runtime, wanted)
    with runtime.reading() as plan:
        refused = stale_cluster_problem(plan, tag) or too_costly(plan, whole)
        twin = plan.copy()
    if refused is not None:
        raise ApiProblemError(refused)
    now_step = runtime.now_ms() // twin.grid.step_ms
    twin.advance_to(now_step, now_step + twin.cluster.horizon_ms // twin.grid.step_ms)
    found = adapt(twin, EFFORT, whole)
    return {"version": present_version(runtime), **found.to_json()}
