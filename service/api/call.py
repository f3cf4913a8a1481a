"""Call, Reply and Route: what a view is given, what it gives back, and how both are described."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from planner.placement import Code
from service.api.fields import Field
from service.problems import ApiError, problem

if TYPE_CHECKING:
    from service.runtime import Runtime

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"

_ENTITY_TAG = re.compile(r'"([^"]{1,128})"\Z')
_KEY = re.compile(r"[\x21-\x7e]{1,255}\Z")


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
        Of a route with fields: their values; else the parsed JSON; for NDJSON the raw bytes; None
        where no body is read.
    media
        Content type of the body.
    fingerprint
        Hash of method, path, query and body.
    """

    path: Mapping[str, str]
    query: Mapping[str, Any]
    headers: Mapping[str, str]
    body: Any
    media: str
    fingerprint: bytes

    def idempotency_key(self) -> str | None:
        """Return the client's key for this request, or None.

        Raises
        ------
        ApiProblemError
            ``malformed`` when it is empty, too long or not plain ASCII.
        """
        key = self.headers.get("idempotency-key")
        if key is not None and not _KEY.match(key):
            error = ApiError("write 1 to 255 visible ASCII characters", pointer="Idempotency-Key")
            raise problem(Code.MALFORMED, "the Idempotency-Key cannot be read", [error])
        return key

    def if_match(self) -> str | None:
        """Return the tag of If-Match without its quotes, ``*`` for any, None when absent.

        Raises
        ------
        ApiProblemError
            ``malformed`` when it is not one quoted tag.
        """
        return self._tag("if-match", "If-Match")

    def if_none_match(self) -> str | None:
        """Return the tag of If-None-Match, as :meth:`if_match` does."""
        return self._tag("if-none-match", "If-None-Match")

    def _tag(self, name: str, shown: str) -> str | None:
        value = self.headers.get(name)
        if value is None or value.strip() == "*":
            return None if value is None else "*"
        match = _ENTITY_TAG.match(value.strip().removeprefix("W/"))
        if match is None:
            error = ApiError(f'write one tag in quotes, such as "1", not {value!r}', pointer=shown)
            raise problem(Code.MALFORMED, f"{shown} cannot be read", [error])
        return match[1]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: JSON (any value), or bytes of another media type, whole or piece by piece."""

    status: int
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = JSON


@dataclass(frozen=True, slots=True)
class Body:
    """What a route reads.

    Attributes
    ----------
    schema
        JSON Schema of the JSON body.
    fields
        Where the body is one flat object: its fields; None where the view reads it.
    media
        Content types taken.
    """

    schema: Mapping[str, Any]
    fields: tuple[Field, ...] | None = None
    media: tuple[str, ...] = (JSON,)


@dataclass(frozen=True, slots=True)
class Answer:
    """One status a route may answer: what it means and the JSON Schema of its body."""

    description: str
    schema: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = JSON


@dataclass(frozen=True, slots=True)
class Route:
    """One call of the API; the app serves it and OpenAPI describes it from the same entry.

    Attributes
    ----------
    method, path
        As in HTTP, path parts in braces.
    name
        Its operationId.
    view
        Reads a Call, calls one use case, returns a Reply.
    answers
        Statuses of success.
    problems
        Codes it may fail with, besides those that any call may.
    query, headers, body
        What it reads; headers as name -> description, a trailing ``!`` in the name = required.
    live
        Answered even before the Plan is ready.
    """

    method: str
    path: str
    name: str
    summary: str
    view: Callable[[Runtime, Call], Reply]
    answers: Mapping[int, Answer]
    problems: tuple[str, ...] = ()
    query: tuple[Field, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    live: bool = False


def json_of(schema_name: str) -> dict[str, str]:
    """Return a reference to a schema of `service.api.schemas`."""
    return {"$ref": f"#/components/schemas/{schema_name}"}
