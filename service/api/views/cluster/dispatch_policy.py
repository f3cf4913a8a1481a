"""GET and PUT /v1/dispatch/policy: who goes first, and who may take what from whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planner.cluster.dispatch_policy import DispatchPolicy
from planner.files import FileError, dispatch_from_json, dispatch_to_json
from planner.files.schema import load_schema
from planner.placement import Code
from service.access.user import Role
from service.api.call import Call
from service.api.route import Body, Documented, Header, Route, json_of
from service.calls.cluster.dispatch_policy import dispatch_table, present_policy, replace_policy
from service.problems import problem_of_file
from service.replication.cluster_trial import UNPLANNABLE
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime


def _get(runtime: Runtime, _call: Call) -> Response:
    return _response_of(*present_policy(runtime))


def _put(runtime: Runtime, call: Call) -> Response:
    try:
        wanted = dispatch_from_json(call.body, "the body")
    except FileError as error:
        raise problem_of_file(error) from error
    return _response_of(*replace_policy(runtime, wanted, call.if_match()))


def _response_of(words: dict[str, Any], tag: str) -> Response:
    return Response(200, words, {"ETag": f'"{tag}"'})


#: As in the cluster file, of which it is a table.
SCHEMAS: Final[dict[str, Any]] = {"DispatchPolicy": load_schema("cluster")["$defs"]["dispatch"]}

_TAG: Final = {"ETag": "Entity tag of the cluster's description, of which the policy is a part."}


def _table(runtime: Runtime, _call: Call) -> Response:
    return Response(200, dispatch_table(runtime))


_TABLE_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "used": {"type": "boolean", "description": "Whether the present policy uses a table."},
        "version": {"type": "integer", "minimum": 0, "description": "0 before the first."},
        "at": {"type": ["number", "null"], "description": "When it was made."},
        "at_at": {"type": ["string", "null"], "format": "date-time"},
        "load": {
            "type": ["number", "null"],
            "description": "Arrivals over those that it sustains; above 1 queues grow.",
        },
        "problem": {"type": "string", "description": "Why there is no table."},
        "table": {
            "type": ["object", "null"],
            "description": "Classes, wheel, and the bins of runs of machines; as `agenda lotes`.",
        },
    },
    "required": ["used", "version", "at", "at_at", "load", "problem", "table"],
}

ROUTES: Final = (
    Route(
        "GET",
        "/v1/dispatch/table",
        "getDispatchTable",
        "The dispatch table (LoTES) that the leading process made last.",
        _table,
        {200: Documented("The table, or null.", _TABLE_SCHEMA)},
        role=Role.OPERATOR,
    ),
    Route(
        "GET",
        "/v1/dispatch/policy",
        "getDispatchPolicy",
        "How work without a reservation is served.",
        _get,
        {
            200: Documented(
                "The policy, every word of it.",
                json_of("DispatchPolicy"),
                _TAG,
                links={
                    "replaceDispatchPolicy": {
                        "operationId": "replaceDispatchPolicy",
                        "parameters": {"If-Match": "$response.header.ETag"},
                        "requestBody": "$response.body",
                    }
                },
            )
        },
    ),
    Route(
        "PUT",
        "/v1/dispatch/policy",
        "replaceDispatchPolicy",
        "Dispatch by another policy from the next tick on; cores that run stay.",
        _put,
        {200: Documented("The new policy.", json_of("DispatchPolicy"), _TAG)},
        problems=(Code.MALFORMED, "stale_revision", Code.CONFLICT, UNPLANNABLE),
        headers=(Header("If-Match", "The ETag that this change is meant for."),),
        body=Body(
            json_of("DispatchPolicy"),
            examples={"as without any": dispatch_to_json(DispatchPolicy())},
        ),
        role=Role.OPERATOR,
    ),
)
