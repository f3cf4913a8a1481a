"""The dispatch policy (order of work, choice of machines), and the dispatch table it may use."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final

import msgspec

from planner.cluster.dispatch_policy import DispatchPolicy
from planner.files import FileError, dispatch_from_json, dispatch_to_json
from planner.files.schema import load_schema
from planner.placement import Code
from service.access.user import Role
from service.commits.cluster_changes import UNPLANNABLE
from service.commits.commands import ClusterAnswer, Reconfiguration
from service.commits.screening import cluster_tag
from service.dispatching.records import read_table_record
from service.http.kit import Calls, Count, IfMatch, Instant, OpenAnswer, doc
from service.http.route import change_of, json_of
from service.problems import ApiProblemError, ProblemDocument, problem, problem_of_file
from service.resources.cluster import present_cluster
from service.response import Response
from service.runtime import Runtime

#: The most retries when another user changes the description at the same time.
_ROUNDS: Final = 5

_POLICY: Final = json_of("DispatchPolicy")
_TAG: Final = {"ETag": "Entity tag of the cluster's description, which contains the policy."}


class DispatchTableView(OpenAnswer):
    used: Annotated[bool, doc("Whether the present policy uses a table.")]
    version: Annotated[Count, doc("0 before the first.")]
    load: Annotated[
        float | None, doc("Arrival rate relative to the sustainable rate; above 1, queues grow.")
    ]
    problem: Annotated[str, doc("Reason why there is no table.")]
    table: Annotated[
        dict[str, Any] | None,
        doc("Classes, wheel, and the bins of ranges of machines, as in `agenda lotes`."),
    ]
    running: Annotated[
        dict[str, list[int]],
        doc(
            "Number of running components of each class on each group; empty before "
            "the first tick with the table."
        ),
    ]
    at: Annotated[float | None, doc("Time at which it was computed.")]
    at_at: Instant | None


#: The schema of the policy is that of its table in the cluster file.
calls = Calls(schemas={"DispatchPolicy": load_schema("cluster")["$defs"]["dispatch"]})


@calls.get("/v1/dispatch/table", "The table, or null.", role=Role.OPERATOR)
def get_dispatch_table(runtime: Runtime) -> DispatchTableView:
    """The newest dispatch table (LoTES) of the leading process."""
    found: dict[str, Any] = {"version": 0, "load": None, "problem": "", "table": None}
    found |= read_table_record(runtime.dispatcher.store)
    assignment = msgspec.json.decode(runtime.dispatcher.rows.assignment())
    by_it = bool(found["version"]) and assignment.get("table_version") == found["version"]
    found["running"] = assignment.get("running", {}) if by_it else {}
    with runtime.reading() as plan:
        used = plan.cluster.dispatch.tables
    at_ms = found.pop("at_ms", None)
    return DispatchTableView(
        used=used,
        **found,
        at=None if at_ms is None else at_ms / 1000,
        at_at=None if at_ms is None else runtime.calendar(at_ms),
    )


@calls.get(
    "/v1/dispatch/policy",
    "The complete policy.",
    headers=_TAG,
    links=change_of("replaceDispatchPolicy"),
)
def get_dispatch_policy(runtime: Runtime) -> Annotated[Response, _POLICY]:
    """The policy for work without a reservation."""
    cluster, tag = present_cluster(runtime)
    return Response(200, dispatch_to_json(cluster.dispatch), {"ETag": f'"{tag}"'})


@calls.put(
    "/v1/dispatch/policy",
    "The new policy.",
    headers=_TAG,
    fails=(Code.MALFORMED, "stale_revision", Code.CONFLICT, UNPLANNABLE),
    examples={"the default policy": dispatch_to_json(DispatchPolicy())},
    role=Role.OPERATOR,
)
def replace_dispatch_policy(
    runtime: Runtime, body: Annotated[Any, _POLICY], tag: IfMatch
) -> Annotated[Response, _POLICY]:
    """Change the dispatch policy from the next tick on; running core components stay."""
    try:
        wanted = dispatch_from_json(body, "the body")
    except FileError as error:
        raise problem_of_file(error) from error
    for _ in range(_ROUNDS):
        present, read = present_cluster(runtime)
        meant = read if tag in (None, "*") else tag
        change = Reconfiguration(replace(present, dispatch=wanted), meant)
        answer = runtime.planner.change(change)[0]
        if isinstance(answer, ClusterAnswer):
            runtime.dispatcher.nudge()
            policy, made = answer.cluster.dispatch, cluster_tag(answer.cluster)
            return Response(200, dispatch_to_json(policy), {"ETag": f'"{made}"'})
        assert isinstance(answer, ProblemDocument)
        if answer.code != "stale_revision" or tag not in (None, "*"):
            raise ApiProblemError(answer)
    raise problem("conflict", "the cluster's description keeps changing; try again later")
