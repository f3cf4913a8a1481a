"""Calls of outages: machines are lost, drained or maintained, and come back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from planner.cluster.cluster import OUTAGE_KINDS, RESERVED, SPARE
from planner.placement import Code
from service.access.user import Role
from service.api.call import Call
from service.api.fields import Field, choice, flag, instant, integer, schema_of, text
from service.api.route import Body, Documented, Route, links_from
from service.calls.cluster import outages
from service.problems import FieldError
from service.replication.cluster_trial import UNPLANNABLE
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime


def _names(name: str, description: str) -> Field:
    def read(value: object) -> list[str]:
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
            raise FieldError("write an array of machine names")
        return value

    schema = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    return Field(name, description, schema, read, None)


_GROUP: Final = text("machines", "The machine group.")

OUTAGE: Final[tuple[Field, ...]] = (
    choice(
        "kind",
        "loss: gone now; drain: gone once leases in force are over; maintenance: known ahead.",
        tuple(kind for kind in OUTAGE_KINDS if kind not in (RESERVED, SPARE)),
        default="loss",
    ),
    replace(_GROUP, schema={**_GROUP.schema, "examples": ["plain"]}),
    integer(
        "count",
        "How many: the highest numbers; of a drain those with least to move.",
        1,
        10**9,
        default=None,
    ),
    _names("names", "Which, by name, instead of a count."),
    instant("start", "When they go; now when absent.", None),
    instant("end", "When they are expected back."),
)

_AFFECTED: Final = {
    "type": "object",
    "properties": {
        "version": {"type": "integer", "description": "Version of the Plan that shows this."},
        "outage": {
            "type": ["object", "null"],
            "description": "The outage as it is now; null when it was taken back.",
        },
        "pending": {
            "type": "boolean",
            "description": "Whether the repair goes on, so that more reservations may be affected: "
            "events and the list of reservations show them soon.",
        },
        "affected": {
            "type": "array",
            "description": "Reservations degraded, failed, moved, restored or relocated, in order.",
            "items": {"type": "object"},
        },
        "dropped": {
            "type": "number",
            "description": "Value of the reservations that are degraded.",
        },
        "moved": {
            "type": "number",
            "description": "Work moved in time, in steps of the whole cluster.",
        },
        "relocated": {
            "type": "number",
            "description": "Work on other machines at the same times, in steps of the cluster.",
        },
        "short": {
            "type": "string",
            "description": "What the machines still lack after the repair; empty when nothing.",
        },
    },
    "required": [
        "version",
        "outage",
        "pending",
        "affected",
        "dropped",
        "moved",
        "relocated",
        "short",
    ],
    "additionalProperties": False,
}

_LIST: Final = {
    "type": "object",
    "properties": {
        "version": {"type": "integer"},
        "outages": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["version", "outages"],
    "additionalProperties": False,
}


_EXAMPLE: Final = {"machines": "plain", "count": 1, "end": "+2h"}


def _add(runtime: Runtime, call: Call) -> Response:
    dry_run = call.query["dry_run"]
    answer = outages.add(runtime, call.body, dry_run=dry_run)
    return Response(200 if dry_run else 201, answer.to_json())


def _list(runtime: Runtime, _call: Call) -> Response:
    return Response(200, outages.list_outages(runtime))


def _delete(runtime: Runtime, call: Call) -> Response:
    return Response(200, outages.take_back(runtime, call.path["id"]).to_json())


ROUTES: Final = (
    Route(
        "POST",
        "/v1/cluster/outages",
        "addOutage",
        "Take machines away; the answer lists the reservations that are affected.",
        _add,
        {
            201: Documented(
                "The machines are away; promises on them are moved or degraded.",
                _AFFECTED,
                links=links_from("$response.body#/outage/id", "endOutage"),
            ),
            200: Documented("Dry run: the reservations that would be affected.", _AFFECTED),
        },
        problems=(Code.MALFORMED, Code.CONFLICT, UNPLANNABLE),
        query=(flag("dry_run", "Say who would be affected; change nothing."),),
        body=Body(schema_of(OUTAGE), OUTAGE, examples={"one machine for two hours": _EXAMPLE}),
        role=Role.OPERATOR,
    ),
    Route(
        "GET",
        "/v1/cluster/outages",
        "listOutages",
        "Outages that are not over, earliest first.",
        _list,
        {200: Documented("The outages.", _LIST)},
    ),
    Route(
        "DELETE",
        "/v1/cluster/outages/{id}",
        "endOutage",
        "Give machines back; what was degraded without them is restored where it fits.",
        _delete,
        {200: Documented("The machines are back.", _AFFECTED)},
        problems=("not_found", Code.CONFLICT, UNPLANNABLE),
        role=Role.OPERATOR,
    ),
)
