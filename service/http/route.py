"""Route: one call of the API, for the app and for OpenAPI."""

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
    """Body of a route's requests.

    Attributes
    ----------
    schema
        JSON Schema of the JSON body.
    fields
        Fields of a body that is a flat object; None if the view parses the body.
    media
        Accepted content types.
    examples
        Valid example bodies, by name.
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
    """One status of a route's answers: its meaning and its body.

    Attributes
    ----------
    body
        Types or JSON Schemas of the body, which is one of them; none: it has no body.
    links
        Calls that use a part of this answer, by name (`links_from`).
    others
        Alternative content types for clients.
    """

    description: str
    body: tuple[Any, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = JSON
    links: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailureForm:
    """Format of a route's failures, if not a problem of RFC 9457.

    Attributes
    ----------
    render
        Makes the response of a problem.
    schema
        JSON Schema of its body.
    statuses
        Failure answers apart from its `problems`, by status.
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
        Carries out a Call and returns a Response (made by `service.http.kit`).
    answers
        Successful answers, by status.
    problems
        Codes with which it may fail, apart from those of all calls.
    query, headers, body
        Inputs that it reads.
    live
        Whether it is answered before the Plan is ready.
    role
        Least role that may call it; None for anyone, without a token.
    failure
        Format of its failures; None for problems of RFC 9457.
    open_query
        Whether parameters that are not in `query` are ignored, because a page reads them itself.
    kinds, schemas
        Types of its answers, and schemas by name of answers without types: OpenAPI components.
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
    """Return links to calls whose path part is the value at `place`, a run-time expression."""
    return {name: {"operationId": name, "parameters": {part: place}} for name in calls}


def change_of(call: str) -> dict[str, dict[str, Any]]:
    """Return the link to a call that changes the object of an answer with a tag."""
    parameters = {"If-Match": "$response.header.ETag"}
    return {call: {"operationId": call, "parameters": parameters, "requestBody": "$response.body"}}


def json_of(schema_name: str) -> dict[str, str]:
    """Return a reference to a component of the description."""
    return {"$ref": f"#/components/schemas/{schema_name}"}
