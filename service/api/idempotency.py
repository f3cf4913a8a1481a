"""Calls that may carry an Idempotency-Key: a repetition gets the first answer, and does nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from service.access.user import LOCAL_USER, User
from service.api.call import Call
from service.api.route import Header
from service.commits.changes.commands import Key
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

#: The header of such calls.
KEY: Final = (
    Header(
        "Idempotency-Key",
        "Same key and request: the first answer again, and nothing happens twice.",
    ),
)

#: A call to be carried out once; it sees to it that its answer is stored with what it changes.
KeyedView: TypeAlias = "Callable[[Runtime, Call, Key | None], Response]"


def kept_key(user: User, given: str) -> str:
    """Return under what a key is kept: those of two users are two, though they are spelt alike.

    Users are two where their names, roles or tenants differ: an answer is shown only to a caller
    that may see all that the one could see whom it was made for.

    Where there are no tokens it is kept as it is. Else it begins with a word and a space, which no
    key holds.
    """
    if user is LOCAL_USER:
        return given
    return f"user {hashlib.sha256(f'{user.identity} {given}'.encode()).hexdigest()}"


def with_key(view: KeyedView) -> Callable[[Runtime, Call], Response]:
    """Return the view that gives the stored answer of the call's key, or lets `view` answer."""

    def once(runtime: Runtime, call: Call) -> Response:
        given = call.idempotency_key()
        if given is None:
            return view(runtime, call, None)
        key = Key(kept_key(call.user, given), call.fingerprint)
        known = runtime.planner.recall(key)
        return view(runtime, call, key) if known is None else known

    return once
