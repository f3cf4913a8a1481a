"""POST, GET and DELETE /v1/tokens: who may call, for admins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from planner.placement import Code
from service.access.token import name_fault, user_fault
from service.access.user import Role, User
from service.api.call import Call
from service.api.fields import Field, choice, identifier, instant, schema_of, text
from service.api.route import Body, Documented, Route, json_of, links_from
from service.calls.access import tokens
from service.problems import ApiError, FieldError, malformed_problem
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

#: Most tenants of one user.
_MOST_TENANTS: Final = 100

_TENANT: Final = text("tenant", "A tenant.")


def _tenants() -> Field:
    def read(value: object) -> frozenset[str]:
        if not isinstance(value, list) or len(value) > _MOST_TENANTS:
            raise FieldError(f"write an array of at most {_MOST_TENANTS} tenants")
        return frozenset(_TENANT.read(one) for one in value)

    schema = {"type": "array", "items": _TENANT.schema, "maxItems": _MOST_TENANTS}
    description = "The tenants a user acts for; operators and admins act for all, and name none."
    return Field("tenants", description, schema, read, frozenset())


_FIELDS: Final[tuple[Field, ...]] = (
    identifier("name", "The user that the audit names."),
    choice("role", "What it may do.", [role.word for role in Role], default=Role.USER.word),
    _tenants(),
    instant("end", "Until when it is good; for ever when absent.", None),
)

_TIME: Final = {"type": ["string", "null"], "format": "date-time"}

_TOKEN: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "name": {"type": "string", "description": "The user."},
        "role": {"type": "string", "enum": [role.word for role in Role]},
        "tenants": {"type": "array", "items": {"type": "string"}},
        "good": {"type": "boolean", "description": "Neither revoked nor ended."},
        "created_at": {"type": "string", "format": "date-time"},
        "end_at": {**_TIME, "description": "Until when it is good; null: for ever."},
        "used_at": {**_TIME, "description": "Its last use, to ten minutes; null: never."},
        "revoked_at": {**_TIME, "description": "When it was revoked; null: it was not."},
    },
    "required": [
        "id", "name", "role", "tenants", "good", "created_at", "end_at", "used_at", "revoked_at",
    ],
}  # fmt: skip

SCHEMAS: Final[dict[str, Any]] = {
    "Token": {**_TOKEN, "additionalProperties": False},
    "NewToken": {
        **_TOKEN,
        "properties": {
            **_TOKEN["properties"],
            "token": {"type": "string", "description": "The secret. It is shown this once."},
        },
        "required": [*_TOKEN["required"], "token"],
        "additionalProperties": False,
    },
    "TokenList": {
        "type": "object",
        "properties": {"tokens": {"type": "array", "items": json_of("Token")}},
        "required": ["tokens"],
        "additionalProperties": False,
    },
}


def _create(runtime: Runtime, call: Call) -> Response:
    body = call.body
    fault = name_fault(body["name"])
    if fault is not None:
        raise malformed_problem([ApiError(fault, pointer="/name")])
    role = Role[body["role"].upper()]
    fault = user_fault(role, body["tenants"])
    if fault is not None:
        raise malformed_problem([ApiError(fault, pointer="/tenants")])
    user = User(body["name"], role, body["tenants"])
    end = runtime.resolve(body["end"])
    made, secret = tokens.create(runtime, user, None if end is None else runtime.unix_of(end))
    headers = {"Location": f"/v1/tokens/{made['id']}", "Cache-Control": "no-store"}
    return Response(201, {**made, "token": secret}, headers)


def _list(runtime: Runtime, _call: Call) -> Response:
    return Response(200, tokens.page(runtime))


def _revoke(runtime: Runtime, call: Call) -> Response:
    return Response(200, tokens.revoke(runtime, call.path["id"]))


_EXAMPLE: Final = {"name": "nightly", "role": "user", "tenants": ["ads"], "end": "+2160h"}

ROUTES: Final = (
    Route(
        "POST",
        "/v1/tokens",
        "createToken",
        "Create a token; its secret is in this answer and nowhere else.",
        _create,
        {
            201: Documented(
                "The token, with its secret.",
                json_of("NewToken"),
                {"Location": "Path of the token.", "Cache-Control": "no-store"},
                links=links_from("$response.body#/id", "revokeToken"),
            )
        },
        problems=(Code.MALFORMED,),
        body=Body(schema_of(_FIELDS), _FIELDS, examples={"for a pipeline": _EXAMPLE}),
        role=Role.ADMIN,
    ),
    Route(
        "GET",
        "/v1/tokens",
        "listTokens",
        "All tokens, oldest first, without their secrets.",
        _list,
        {200: Documented("The tokens.", json_of("TokenList"))},
        role=Role.ADMIN,
    ),
    Route(
        "DELETE",
        "/v1/tokens/{id}",
        "revokeToken",
        "Revoke a token: within a second no server process takes it any more.",
        _revoke,
        {200: Documented("The token, revoked.", json_of("Token"))},
        problems=("not_found",),
        role=Role.ADMIN,
    ),
)
