"""Read the cluster's description and change it while the server runs."""

from __future__ import annotations

from dataclasses import replace

from planner.cluster import Cluster
from service.commits.commands import Reconfiguration
from service.commits.responses import render_cluster
from service.commits.revision_check import cluster_tag
from service.problems import ApiError, malformed
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
    present, _ = present_cluster(runtime)
    errors = []
    if wanted.step_ms != present.step_ms:
        errors.append(ApiError("the step of a plan cannot change", pointer="/step"))
    if wanted.origin not in (None, present.origin):
        errors.append(ApiError("the origin of a plan cannot change", pointer="/origin"))
    if errors:
        raise malformed(errors)
    whole = replace(wanted, origin=present.origin)
    return runtime.planner.respond(Reconfiguration(whole, tag), render_cluster)


def present_version(runtime: Runtime) -> int:
    """Return the version of the Plan."""
    with runtime.reading() as plan:
        return plan.version
