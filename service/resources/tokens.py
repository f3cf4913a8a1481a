"""Tokens for calls of the API, which admins create and revoke; and the caller of a call."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from planner.placement import Code
from rdl.durations import rfc3339_text
from rdl.expressions import Moment
from service.access.token import name_fault, user_fault
from service.access.user import Role, User
from service.clock import instant_of
from service.http.kinds import BodyTime, Id, array, choice, text
from service.http.kit import Answer, Calls, Input, Instant, doc, one_of
from service.http.route import links_from
from service.problems import ApiError, malformed_problem, problem
from service.response import Response
from service.runtime import Runtime
from service.store.tokens import shown_token

#: The most tenants of one user.
_MOST_TENANTS: Final = 100

RoleWord: TypeAlias = Annotated[str, one_of(role.word for role in Role)]


class TokenRequest(Input):
    name: Annotated[Id, doc("Name of the user in the audit.")]
    role: Annotated[str, choice([role.word for role in Role]), doc("Its rights.")] = "user"
    tenants: Annotated[
        tuple[str, ...],
        array(text(), 0, _MOST_TENANTS, f"write an array of at most {_MOST_TENANTS} tenants"),
        doc("Tenants for which a user acts; empty for operators and admins, who act for all."),
    ] = ()
    end: Annotated[BodyTime | None, doc("Expiry; never when absent.")] = None


class TokenView(Answer):
    id: str
    name: Annotated[str, doc("The user.")]
    role: RoleWord
    tenants: list[str]
    good: Annotated[bool, doc("Neither revoked nor expired.")]
    created_at: Instant
    end_at: Annotated[Instant | None, doc("Expiry; null: never.")]
    used_at: Annotated[
        Instant | None, doc("Last use, with a precision of ten minutes; null: never.")
    ]
    revoked_at: Annotated[Instant | None, doc("Time of revocation; null: not revoked.")]


class NewToken(TokenView):
    token: Annotated[str, doc("The secret, which is shown only once.")]


class TokenList(Answer):
    tokens: list[TokenView]


calls = Calls()


@calls.post(
    "/v1/tokens",
    "The token, with its secret.",
    status=201,
    fails=(Code.MALFORMED,),
    headers={"Location": "Path of the token.", "Cache-Control": "no-store"},
    links=links_from("$response.body#/id", "revokeToken"),
    examples={
        "for a pipeline": {"name": "nightly", "role": "user", "tenants": ["ads"], "end": "+2160h"}
    },
    role=Role.ADMIN,
)
def create_token(runtime: Runtime, body: TokenRequest) -> Annotated[Response, NewToken]:
    """Create a token; its secret is only in this answer."""
    role, tenants = Role[body.role.upper()], frozenset(body.tenants)
    for member, fault in (("name", name_fault(body.name)), ("tenants", user_fault(role, tenants))):
        if fault is not None:
            raise malformed_problem([ApiError(fault, pointer=f"/{member}")])
    now_ms = runtime.clock_ms()
    end_ms = _unix(runtime, body.end)
    if end_ms is not None and end_ms <= now_ms:
        error = ApiError("the end is not in the future", pointer="/end", fix="write +720h")
        raise malformed_problem([error])
    token, secret = runtime.tokens.create(User(body.name, role, tenants), end_ms, now_ms)
    headers = {"Location": f"/v1/tokens/{token.id}", "Cache-Control": "no-store"}
    return Response(201, NewToken(**shown_token(token, now_ms), token=secret), headers)


@calls.get("/v1/tokens", "The tokens.", role=Role.ADMIN)
def list_tokens(runtime: Runtime) -> TokenList:
    """All tokens, oldest first, without their secrets."""
    now_ms = runtime.clock_ms()
    return TokenList(tokens=[TokenView(**shown_token(one, now_ms)) for one in runtime.tokens.all()])


@calls.delete("/v1/tokens/{id}", "The token, revoked.", fails=("not_found",), role=Role.ADMIN)
def revoke_token(runtime: Runtime, id_: str) -> TokenView:
    """Revoke a token: within a second no server process accepts it."""
    now_ms = runtime.clock_ms()
    token = runtime.tokens.revoke(id_, now_ms)
    if token is None:
        raise problem("not_found", f"there is no token {id_!r}")
    return TokenView(**shown_token(token, now_ms))


def _unix(runtime: Runtime, instant: Moment | None) -> int | None:
    plan_ms = runtime.resolve(instant)
    return None if plan_ms is None else runtime.unix_of(plan_ms)


class Caller(Answer):
    name: str
    role: RoleWord
    tenants: Annotated[
        list[str], doc("The tenants for which the user acts; empty if it acts for all.")
    ]
    all_tenants: Annotated[bool, doc("Whether the user acts for all tenants.")]
    auth: Annotated[str, one_of(("none", "token")), doc("Whether this server requires tokens.")]
    now_at: Annotated[Instant, doc("The server's clock.")]


@calls.get("/v1/user", "The user of the token.", live=True)
def get_caller(runtime: Runtime, user: User) -> Annotated[Response, Caller]:
    """The calling user: name, role and tenants."""
    body = Caller(
        name=user.name,
        role=user.role.word,
        tenants=sorted(user.tenants),
        all_tenants=user.sees_all,
        auth=runtime.config.auth,
        now_at=rfc3339_text(instant_of(runtime.clock_ms())),
    )
    return Response(200, body, {"Cache-Control": "no-store"})
