"""Call: one request, read and checked against its route, and the headers that a view may read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from planner.placement import Code
from service.access.user import LOCAL_USER, User
from service.events import ID_PATTERN
from service.problems import ApiError, ApiProblemError, problem

NDJSON: Final = "application/x-ndjson"

_TAG = r'"([!#-+.-~-]{1,128})"'
_KEY = re.compile(r"[!-~]{1,255}")
_ENTITY_TAG = re.compile(_TAG)
_ANY_STATE: Final = {"type": "string", "enum": ["*"]}


def _text_like(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^{pattern}$"}


#: JSON Schema of each header that routes read.
HEADERS: Final[dict[str, dict[str, Any]]] = {
    "Idempotency-Key": _text_like(_KEY.pattern),
    "If-Match": {"anyOf": [_ANY_STATE, _text_like(f"(W/)?{_TAG}")]},
    "If-None-Match": {"anyOf": [_ANY_STATE, _text_like(f"(W/)?{_TAG}(, (W/)?{_TAG})*")]},
    "Last-Event-ID": _text_like(ID_PATTERN),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One request, read and checked against its route.

    Attributes
    ----------
    path, query
        Values of the path's parts and of the route's query fields.
    headers
        By lower-case name.
    body
        Values of the route's fields; without fields the parsed JSON; the raw bytes if it is not
        JSON; None if no body is read.
    media
        Content type of the body.
    fingerprint
        Hash of method, path, query and body.
    user
        User on whose behalf it is made.
    """

    path: Mapping[str, str]
    query: Mapping[str, Any]
    headers: Mapping[str, str]
    body: Any
    media: str
    fingerprint: bytes
    user: User = LOCAL_USER

    def idempotency_key(self) -> str | None:
        """Return the client's idempotency key for this request, or None.

        Raises
        ------
        ApiProblemError
            ``malformed`` when it is empty, too long or not plain ASCII.
        """
        key = self.headers.get("idempotency-key")
        if key is not None and not _KEY.fullmatch(key):
            error = ApiError("write 1 to 255 visible ASCII characters", pointer="Idempotency-Key")
            raise problem(Code.MALFORMED, "the Idempotency-Key is malformed", [error])
        return key

    def if_match(self) -> str | None:
        """Return the tag of If-Match without its quotes, ``*`` for any, None when absent.

        Raises
        ------
        ApiProblemError
            ``malformed`` when it is not one quoted tag.
        """
        tags = self._tags("if-match", "If-Match", "one tag")
        if tags is not None and len(tags) > 1:
            raise _strange_tag("If-Match", "one tag", self.headers["if-match"])
        return None if tags is None else tags[0]

    def if_none_match(self) -> list[str]:
        """Return the tags of If-None-Match, like :meth:`if_match`; caches send several."""
        return self._tags("if-none-match", "If-None-Match", "tags") or []

    def _tags(self, name: str, shown: str, what: str) -> list[str] | None:
        value = self.headers.get(name)
        if value is None or value.strip() == "*":
            return None if value is None else ["*"]
        found = [_ENTITY_TAG.fullmatch(one.strip().removeprefix("W/")) for one in value.split(",")]
        tags = [one[1] for one in found if one is not None]
        if len(tags) < len(found):
            raise _strange_tag(shown, what, value)
        return tags


def _strange_tag(header: str, what: str, value: str) -> ApiProblemError:
    error = ApiError(f'write {what} in quotes, such as "1", not {value!r}', pointer=header)
    return problem(Code.MALFORMED, f"{header} cannot be read", [error])
