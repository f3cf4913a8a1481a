"""Calls that may carry an Idempotency-Key: a repetition gets the first answer, and does nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from service.commits.changes.commands import Key
from service.http.call import Call
from service.http.kit import kept_key
from service.http.route import Header
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
