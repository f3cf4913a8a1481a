"""The caller's identity, so that a page offers only what the user may do."""

from __future__ import annotations

from typing import Annotated

from rdl.durations import rfc3339_text
from service.access.user import User
from service.clock import instant_of
from service.http.kit import Answer, Calls, Instant, doc, one_of
from service.resources.tokens import RoleWord
from service.response import Response
from service.runtime import Runtime


class Caller(Answer):
    name: str
    role: RoleWord
    tenants: Annotated[
        list[str], doc("The tenants for which the user acts; empty if it acts for all.")
    ]
    all_tenants: Annotated[bool, doc("Whether the user acts for all tenants.")]
    auth: Annotated[str, one_of(("none", "token")), doc("Whether this server requires tokens.")]
    now_at: Annotated[Instant, doc("The server's clock.")]


calls = Calls()


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
