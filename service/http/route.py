"""Route: one call of the API, as the app serves it and OpenAPI describes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from service.access.user import Role
from service.http.call import Call
from service.http.fields import Field
from service.problems import ProblemDocument
from service.response import JSON, Response

if TYPE_CHECKING:
    from service.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Body:
    """What a route reads.

    Attributes
    ----------
    schema
        JSON Schema of the JSON body.
    fields
        Where the body is one flat object: its fields; None if the view reads it.
    media
        Content types taken.
    examples
        Bodies that are taken as they are, by name.
    """

    schema: Mapping[str, Any]
    fields: tuple[Field, ...] | None = None
    media: tuple[str, ...] = (JSON,)
    examples: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Header:
    """A request header that a route reads; its schema is in `service.http.call.HEADERS`."""

    name: str
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Documented:
    """One status a route may answer: what it means and the JSON Schema of its body.

    Attributes
    ----------
    links
        Calls that take something of this answer, by their name (`links_from`).
    others
        Content types in which a client may ask for the same.
    """

    description: str
    schema: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = JSON
    links: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailureForm:
    """How a route says what went wrong, where that is not a problem of RFC 9457.

    Attributes
    ----------
    render
        Makes the response of a problem.
    schema
        JSON Schema of its body.
    statuses
        What the route answers apart from its `problems`, by status.
    """

    render: Callable[[ProblemDocument], Response]
    schema: Mapping[str, Any]
    statuses: Mapping[int, str]


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
        Reads a Call, does what it asks for, returns a Response (`service.http.kit` makes it).
    answers
        What it may answer when it succeeds, by status.
    problems
        Codes it may fail with, apart from those that any call may.
    query, headers, body
        What it reads.
    live
        Whether it is answered even before the Plan is ready.
    role
        Least role that may call it; None: anybody, without a token.
    failure
        The form of its failures; None: problems of RFC 9457.
    open_query
        Whether parameters that are not in `query` are left alone: a page reads them itself.
    kinds, schemas
        The types of its answers, and schemas by name of what has none: components of OpenAPI.
    """

    method: str
    path: str
    name: str
    summary: str
    view: Callable[[Runtime, Call], Response]
    answers: Mapping[int, Documented]
    problems: tuple[str, ...] = ()
    query: tuple[Field, ...] = ()
    headers: tuple[Header, ...] = ()
    body: Body | None = None
    live: bool = False
    role: Role | None = Role.USER
    failure: FailureForm | None = None
    open_query: bool = False
    kinds: tuple[Any, ...] = ()
    schemas: Mapping[str, Any] = field(default_factory=dict)


def links_from(place: str, *calls: str, part: str = "id") -> dict[str, dict[str, Any]]:
    """Return links to calls whose path takes what is found at `place`, a run-time expression."""
    return {name: {"operationId": name, "parameters": {part: place}} for name in calls}


def change_of(call: str) -> dict[str, dict[str, Any]]:
    """Return the link to a call that changes what an answer with a tag holds."""
    parameters = {"If-Match": "$response.header.ETag"}
    return {call: {"operationId": call, "parameters": parameters, "requestBody": "$response.body"}}


def json_of(schema_name: str) -> dict[str, str]:
    """Return a reference to a component of the description."""
    return {"$ref": f"#/components/schemas/{schema_name}"}
