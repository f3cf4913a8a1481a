"""The calls around webhooks: create, list, try, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planner.placement import Code
from service.api.call import Call
from service.api.fields import Field, identifier, number, schema_of, text
from service.api.route import Body, Documented, Route, json_of, links_from
from service.calls.events import webhooks
from service.problems import FieldError
from service.response import Response
from service.webhooks.collection import USUAL_KINDS, WEBHOOK_KINDS

if TYPE_CHECKING:
    from service.runtime import Runtime

#: Longest time before its beginning that a reservation is announced, seconds, and the usual one.
_LONGEST_LEAD_S: Final = 86_400.0
_LEAD_S: Final = 300.0


def _read_kinds(value: object) -> list[str]:
    if not isinstance(value, list) or not value or not all(one in WEBHOOK_KINDS for one in value):
        raise FieldError(f"write an array of some of {', '.join(WEBHOOK_KINDS)}")
    return list(dict.fromkeys(value))


def _read_url(value: object) -> str:
    if not isinstance(value, str):
        raise FieldError("write a string")
    return value


_WEBHOOK: Final = (
    Field(
        "url",
        "Where events are posted: http or https.",
        {"type": "string", "maxLength": 2000, "pattern": r"^https?://[a-z0-9.-]+(:[0-9]{1,5})?/"},
        _read_url,
    ),
    Field(
        "kinds",
        "What is told.",
        {
            "type": "array",
            "items": {"type": "string", "enum": list(WEBHOOK_KINDS)},
            "minItems": 1,
            "default": list(USUAL_KINDS),
        },
        _read_kinds,
        list(USUAL_KINDS),
    ),
    text("tenant", "Only of this tenant's reservations.", default=None),
    identifier("reservation", "Only of this reservation.", default=None),
    number(
        "lead",
        "Seconds before a reservation begins that `starting_soon` is told.",
        0,
        _LONGEST_LEAD_S,
        default=_LEAD_S,
    ),
)

_TEXT: Final = {"type": "string"}
_SHOWN: Final[dict[str, Any]] = {
    "id": _TEXT,
    "url": _TEXT,
    "kinds": {"type": "array", "items": _TEXT},
    "tenant": {"type": ["string", "null"]},
    "reservation": {"type": ["string", "null"]},
    "lead": {"type": "number"},
    "created_at": {"type": "string", "format": "date-time"},
    "stopped": {
        "type": ["string", "null"],
        "description": "Why it is told nothing any more: the token of who made it is not good.",
    },
    "deliveries": {
        "type": "object",
        "properties": {state: {"type": "integer"} for state in ("waiting", "delivered", "dead")},
    },
    "secret": {**_TEXT, "description": "Only where it is created: what deliveries are signed by."},
    "failures": {
        "type": "array",
        "description": "Of one webhook: what was not taken; `dead` is given up.",
        "items": {"type": "object"},
    },
}
SCHEMAS: Final[dict[str, Any]] = {
    "Webhook": {
        "type": "object",
        "properties": _SHOWN,
        "required": [name for name in _SHOWN if name not in ("secret", "failures")],
    },
    "WebhookList": {
        "type": "object",
        "properties": {"webhooks": {"type": "array", "items": json_of("Webhook")}},
        "required": ["webhooks"],
    },
    "WebhookTest": {"type": "object", "properties": {"event": _TEXT}, "required": ["event"]},
}


def _create(runtime: Runtime, call: Call) -> Response:
    body = webhooks.create(runtime, call.user, call.body)
    return Response(201, body, {"Location": f"/v1/webhooks/{body['id']}"})


def _list(runtime: Runtime, call: Call) -> Response:
    return Response(200, webhooks.page(runtime, call.user))


def _get(runtime: Runtime, call: Call) -> Response:
    return Response(200, webhooks.one(runtime, call.user, call.path["id"]))


def _delete(runtime: Runtime, call: Call) -> Response:
    webhooks.delete(runtime, call.user, call.path["id"])
    return Response(204)


def _test(runtime: Runtime, call: Call) -> Response:
    return Response(202, webhooks.send_test(runtime, call.user, call.path["id"]))


ROUTES: Final = (
    Route(
        "POST",
        "/v1/webhooks",
        "createWebhook",
        "Have events posted to a URL from now on.",
        _create,
        {
            201: Documented(
                "The webhook; its secret is told only here.",
                json_of("Webhook"),
                {"Location": "Where to ask for it."},
                links=links_from(
                    "$response.body#/id", "getWebhook", "testWebhook", "deleteWebhook"
                ),
            )
        },
        problems=(Code.MALFORMED, "too_many"),
        body=Body(schema_of(_WEBHOOK), _WEBHOOK),
    ),
    Route(
        "GET",
        "/v1/webhooks",
        "listWebhooks",
        "All webhooks that the caller may see, oldest first.",
        _list,
        {200: Documented("The webhooks.", json_of("WebhookList"))},
    ),
    Route(
        "GET",
        "/v1/webhooks/{id}",
        "getWebhook",
        "One webhook, with what could not be delivered.",
        _get,
        {200: Documented("The webhook.", json_of("Webhook"))},
        problems=("not_found",),
    ),
    Route(
        "POST",
        "/v1/webhooks/{id}/test",
        "testWebhook",
        "Have an event of kind `test` delivered.",
        _test,
        {202: Documented("It is delivered soon.", json_of("WebhookTest"))},
        problems=("not_found",),
    ),
    Route(
        "DELETE",
        "/v1/webhooks/{id}",
        "deleteWebhook",
        "Post nothing more to it.",
        _delete,
        {204: Documented("The webhook is deleted.")},
        problems=("not_found",),
    ),
)
