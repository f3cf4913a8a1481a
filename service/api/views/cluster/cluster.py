"""GET and PUT /v1/cluster: what the Plan plans on, changed while it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.files import FileError, cluster_from_json, cluster_to_json
from planner.placement import Code
from service.access.user import Role
from service.api.call import Call
from service.api.fields import flag
from service.api.route import Body, Documented, Header, Route, json_of
from service.calls.cluster.cluster import present_cluster, reconfigure, rehearse_reconfiguration
from service.commits.screening.ownership import shown_cluster
from service.problems import problem_of_file
from service.replication.cluster_trial import UNPLANNABLE
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime


def _get(runtime: Runtime, call: Call) -> Response:
    cluster, tag = present_cluster(runtime)
    shown = cluster_to_json(shown_cluster(cluster, call.user))
    return Response(200, shown, {"ETag": f'"{tag}"'})


def _put(runtime: Runtime, call: Call) -> Response:
    present, _ = present_cluster(runtime)
    try:
        wanted = cluster_from_json(call.body, "the body", level=present.promise, present=present)
    except FileError as error:
        raise problem_of_file(error) from error
    if "promises" not in call.body:  # it stays as it is
        wanted = replace(
            wanted,
            promise_choices=present.promise_choices,
            memory_per_cpu=present.memory_per_cpu,
        )
    if call.query["dry_run"]:
        return Response(200, rehearse_reconfiguration(runtime, wanted, call.if_match()))
    return reconfigure(runtime, wanted, call.if_match())


_WOULD: Final = {
    "type": "object",
    "properties": {
        "version": {"type": "integer", "description": "Version of the Plan that was looked at."},
        "affected": {"type": "array", "items": {"type": "object"}},
        "dropped": {"type": "number"},
        "moved": {"type": "number"},
        "relocated": {"type": "number"},
        "short": {"type": "string"},
    },
    "required": ["version", "affected", "dropped", "moved", "relocated", "short"],
}

_TAG: Final = {"ETag": "Entity tag of the description."}

ROUTES: Final = (
    Route(
        "GET",
        "/v1/cluster",
        "getCluster",
        "Machines, outages, queues, prices and policies.",
        _get,
        {
            200: Documented(
                "The description.",
                json_of("Cluster"),
                _TAG,
                links={
                    "replaceCluster": {
                        "operationId": "replaceCluster",
                        "parameters": {"If-Match": "$response.header.ETag"},
                        "requestBody": "$response.body",
                    }
                },
            )
        },
    ),
    Route(
        "PUT",
        "/v1/cluster",
        "replaceCluster",
        "Change the description while the server runs; new policies evict nothing.",
        _put,
        {
            200: Documented(
                "The new description; of a dry run, who would be affected.",
                {"anyOf": [json_of("Cluster"), _WOULD]},
                _TAG,
            )
        },
        query=(flag("dry_run", "Say who would be affected, and change nothing."),),
        problems=(Code.MALFORMED, "stale_revision", Code.CONFLICT, UNPLANNABLE),
        headers=(Header("If-Match", "The ETag that this change is meant for."),),
        body=Body(json_of("Cluster")),
        role=Role.OPERATOR,
    ),
)
