"""The cluster: read and change its description while the server runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

from planner.adaptation.adapter import adapt
from planner.cluster.cluster import Cluster, Outage
from planner.files import FileError, cluster_from_json, cluster_to_json
from planner.files.schema import load_schema
from planner.placement import Code
from planner.plan.plan import Plan
from service.access.user import Role, User
from service.commits.adaptation import EFFORT
from service.commits.cluster_changes import UNPLANNABLE, too_costly
from service.commits.commands import Reconfiguration
from service.commits.screening import cluster_tag, stale_cluster_problem
from service.http.kinds import Flag
from service.http.kit import Calls, IfMatch, OpenAnswer, doc
from service.http.route import change_of, json_of
from service.ownership import shown_cluster
from service.problems import (
    ApiError,
    ApiProblemError,
    malformed_problem,
    problem,
    problem_of_file,
)
from service.rendering import render_cluster, respond
from service.response import Response
from service.runtime import Runtime


def _cluster_schema() -> dict[str, Any]:
    """Return the cluster file's schema with references adjusted to its place in OpenAPI."""
    moved = _move_references(load_schema("cluster"))
    assert isinstance(moved, dict)
    return {key: value for key, value in moved.items() if key not in ("$schema", "$id")}


def _move_references(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: inner.replace("#/$defs/", "#/components/schemas/Cluster/$defs/")
            if key == "$ref"
            else _move_references(inner)
            for key, inner in value.items()
        }
    return [_move_references(inner) for inner in value] if isinstance(value, list) else value


class ClusterRehearsal(OpenAnswer):
    version: Annotated[int, doc("Version of the Plan that was used.")]
    affected: list[dict[str, Any]]
    dropped: float
    moved: float
    relocated: float
    short: str


_CLUSTER: Final = json_of("Cluster")
_TAG: Final = {"ETag": "Entity tag of the description."}

calls = Calls(schemas={"Cluster": _cluster_schema()})


@calls.get("/v1/cluster", "The description.", headers=_TAG, links=change_of("replaceCluster"))
def get_cluster(runtime: Runtime, user: User) -> Annotated[Response, _CLUSTER]:
    """Machines, outages, queues, prices and policies."""
    cluster, tag = present_cluster(runtime)
    return Response(200, cluster_to_json(shown_cluster(cluster, user)), {"ETag": f'"{tag}"'})


@calls.put(
    "/v1/cluster",
    "The new description; for a dry run, the affected reservations.",
    headers=_TAG,
    fails=(
        Code.MALFORMED,
        "stale_revision",
        "revision_required",
        Code.CONFLICT,
        UNPLANNABLE,
    ),
    role=Role.OPERATOR,
)
def replace_cluster(
    runtime: Runtime,
    body: Annotated[Any, _CLUSTER],
    tag: IfMatch,
    *,
    dry_run: Annotated[
        Flag, doc("Return the reservations that would be affected without changing anything.")
    ] = False,
) -> Annotated[Response, _CLUSTER, ClusterRehearsal]:
    """Change the description while the server runs; new policies evict nothing.

    `If-Match` names the description that is replaced, `*` any; only a dry run needs none.
    """
    if tag is None and not dry_run:
        error = ApiError("send If-Match: the ETag of GET /v1/cluster, or *", "revision_required")
        detail = "a new description needs the tag of the one that it replaces, or * for any"
        raise problem("revision_required", detail, [error])
    present, _ = present_cluster(runtime)
    try:
        wanted = cluster_from_json(body, "the body", level=present.promise, present=present)
    except FileError as error:
        raise problem_of_file(error) from error
    if "promises" not in body:  # it stays as it is
        wanted = replace(
            wanted,
            promise_choices=present.promise_choices,
            memory_per_cpu=present.memory_per_cpu,
        )
    whole = _whole(runtime, wanted)
    if dry_run:
        return Response(200, _rehearse(runtime, whole, tag))
    return respond(runtime.planner, Reconfiguration(whole, tag), render_cluster)


def present_cluster(runtime: Runtime) -> tuple[Cluster, str]:
    """Return the cluster's description and its tag."""
    with runtime.reading() as plan:
        return plan.cluster, cluster_tag(plan.cluster)


def present_version(runtime: Runtime) -> int:
    """Return the version of the Plan."""
    with runtime.reading() as plan:
        return plan.version


def _whole(runtime: Runtime, wanted: Cluster) -> Cluster:
    """Return the requested description with the Plan's origin.

    What others take of machines is kept where Kubernetes says it.
    Outages of the present step for which work has left machines are kept (`_traces`).

    Raises
    ------
    ApiProblemError
        ``malformed`` if it changes the step or the origin, to which all promises refer.
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
    taken = wanted.taken if runtime.config.kubernetes is None else present.taken
    wanted = replace(wanted, origin=present.origin, taken=taken)
    with runtime.reading() as plan:
        kept = _traces(plan, wanted, step)
    return replace(wanted, outages=(*wanted.outages, *kept))


def _rehearse(runtime: Runtime, whole: Cluster, tag: str | None) -> ClusterRehearsal:
    """Return which reservations another description would affect, without changing anything.

    Raises
    ------
    ApiProblemError
        ``stale_revision`` or ``unplannable_cluster``.
    """
    with runtime.reading() as plan:
        refused = stale_cluster_problem(plan, tag) or too_costly(plan, whole)
        twin = plan.copy()
    if refused is not None:
        raise ApiProblemError(refused)
    now_step = runtime.now_ms() // twin.grid.step_ms
    twin.advance_to(now_step, now_step + twin.cluster.horizon_ms // twin.grid.step_ms)
    found = adapt(twin, EFFORT, whole)
    return ClusterRehearsal(version=present_version(runtime), **found.to_json())


# If an outage were removed in the step in which it began, the record would not show why bundles
# changed machines. So an outage for which work has left machines stays until the end of the step.


def _traces(plan: Plan, wanted: Cluster, step: int) -> tuple[Outage, ...]:
    """Return the outages that began at a step and that another description must keep.

    These are outages of the present description that the other one lacks, for machines that it has
    and that work has left. They are kept until the end of the step.

    Parameters
    ----------
    step
        The present step.
    """
    step_ms = plan.grid.step_ms
    start, end = step * step_ms, (step + 1) * step_ms
    found: list[Outage] = []
    for outage in plan.cluster.outages_between(start, end):
        if start <= outage.start_ms < end <= outage.end_ms and was_left(plan, outage, step):
            kept = replace(outage, indices=_not_out(outage, wanted, start))
            if kept.indices:
                found.append(replace(kept, end_ms=end))
    return tuple(found)


def _not_out(outage: Outage, wanted: Cluster, at_ms: int) -> tuple[int, ...]:
    """Return the machines of an outage that a description has and that are up at a time in it."""
    counts = {group.name: group.count for group in wanted.machines}
    out = {
        index
        for one in wanted.outages_between(at_ms, outage.start_ms + 1)
        if one.machines == outage.machines
        and one.start_ms <= outage.start_ms
        and at_ms < one.end_ms
        for index in one.indices
    }
    there = range(counts.get(outage.machines, 0))
    return tuple(index for index in outage.indices if index in there and index not in out)


def was_left(plan: Plan, outage: Outage, step: int) -> bool:
    """Return whether a slot with an earlier start ends at a step on a machine of an outage."""
    names = {name: number for number, name in enumerate(plan.cluster.machine_names)}
    machines = [names.get(f"{outage.machines}-{index}") for index in outage.indices]
    slots, _ = plan.table.slots_after(step - 1)
    ends = slots[(slots[:, 1] == step) & (slots[:, 0] < step), 3].tolist()
    return not set(machines).isdisjoint(ends)
