"""Call, Reply and Route: what a view is given, what it gives back, and how both are described."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from planner.placement import Code
from service.api.fields import Field
from service.problems import ApiError, ApiProblemError, problem

if TYPE_CHECKING:
    from service.runtime import Runtime

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"

_TAG = r'"([!#-+.-~-]{1,128})"'
_KEY = re.compile(r"[!-~]{1,255}")
_ENTITY_TAG = re.compile(_TAG)
_ANY_STATE: Final = {"type": "string", "enum": ["*"]}


def _looking(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^{pattern}$"}


#: JSON Schema of each header that routes read.
HEADERS: Final[dict[str, dict[str, Any]]] = {
    "Idempotency-Key": _looking(_KEY.pattern),
    "If-Match": {"anyOf": [_ANY_STATE, _looking(f"(W/)?{_TAG}")]},
    "If-None-Match": {"anyOf": [_ANY_STATE, _looking(f"(W/)?{_TAG}(, (W/)?{_TAG})*")]},
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
        if key is not None and not _KEY.fullmatch(key):
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
        tags = self._tags("if-match", "If-Match", "one tag")
        if tags is not None and len(tags) > 1:
            raise _strange_tag("If-Match", "one tag", self.headers["if-match"])
        return None if tags is None else tags[0]

    def if_none_match(self) -> list[str]:
        """Return the tags of If-None-Match, as :meth:`if_match` does; caches send several."""
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
    examples
        Bodies that are taken as they stand, by name.
    """

    schema: Mapping[str, Any]
    fields: tuple[Field, ...] | None = None
    media: tuple[str, ...] = (JSON,)
    examples: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Documented:
    """One status a route may answer: what it means and the JSON Schema of its body.

    Attributes
    ----------
    links
        Calls that take something of this answer, by their name (`linked`).
    """

    description: str
    schema: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = JSON
    links: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


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
    answers: Mapping[int, Documented]
    problems: tuple[str, ...] = ()
    query: tuple[Field, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    live: bool = False


def linked(place: str, *calls: str) -> dict[str, dict[str, Any]]:
    """Return links to calls whose path takes the id found at `place`, a run-time expression."""
    return {name: {"operationId": name, "parameters": {"id": place}} for name in calls}


def json_of(schema_name: str) -> dict[str, str]:
    """Return a reference to a schema of `service.api.schemas`."""
    return {"$ref": f"#/components/schemas/{schema_name}"}
