"""Calls that may carry an Idempotency-Key: told the first answer again instead of done twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from service.api.call import JSON, Call, Reply
from service.calls import reservations as use_cases
from service.commits.commands import Key, Rendered

if TYPE_CHECKING:
    from service.runtime import Runtime

#: How routes of such calls describe the header.
KEY: Final = {
    "Idempotency-Key": "Same key and request: the first answer again, and nothing happens twice."
}

#: A call to be carried out once; it sees to it that its answer is stored with what it changes.
Once: TypeAlias = "Callable[[Runtime, Call, Key | None], Rendered]"


def keyed(once: Once) -> Callable[[Runtime, Call], Reply]:
    """Return the view that tells what was answered under the call's key, or lets `once` answer."""

    def view(runtime: Runtime, call: Call) -> Reply:
        given = call.idempotency_key()
        key = None if given is None else Key(given, call.fingerprint)
        known = use_cases.replay(runtime, key)
        return reply_of(once(runtime, call, key) if known is None else known)

    return view


def reply_of(rendered: Rendered) -> Reply:
    """Return an answer in its wire form as a reply."""
    headers = dict(rendered.headers)
    media = headers.pop("Content-Type", JSON)
    return Reply(rendered.status, rendered.body, headers, media)
