"""Create, list and revoke tokens; one function for each call."""

from __future__ import annotations

from typing import Any

from service.access.user import User
from service.problems import ApiError, malformed_problem, problem
from service.runtime import Runtime
from service.store.rows.tokens import shown_token


def create(runtime: Runtime, user: User, end_ms: int | None) -> tuple[dict[str, Any], str]:
    """Create a token; return it as it is shown, and its secret.

    Parameters
    ----------
    end_ms
        Unix ms, or None.

    Raises
    ------
    ApiProblemError
        ``malformed`` for an end that is over.
    """
    now_ms = runtime.clock_ms()
    if end_ms is not None and end_ms <= now_ms:
        error = ApiError("the end is not in the future", pointer="/end", fix="write +720h")
        raise malformed_problem([error])
    token, secret = runtime.tokens.create(user, end_ms, now_ms)
    return shown_token(token, now_ms), secret


def page(runtime: Runtime) -> dict[str, Any]:
    """Return all tokens, without their secrets."""
    now_ms = runtime.clock_ms()
    return {"tokens": [shown_token(token, now_ms) for token in runtime.tokens.all()]}


def revoke(runtime: Runtime, id_: str) -> dict[str, Any]:
    """Revoke a token; return it as it is shown.

    Raises
    ------
    ApiProblemError
        ``not_found``.
    """
    now_ms = runtime.clock_ms()
    token = runtime.tokens.revoke(id_, now_ms)
    if token is None:
        raise problem("not_found", f"there is no token {id_!r}")
    return shown_token(token, now_ms)
