"""The kit of resources: an API call is a typed function that also describes it.

    calls = Calls()

    @calls.get("/v1/tokens/{id}", "The token.", fails=("not_found",), role=Role.ADMIN)
    def get_token(runtime: Runtime, id_: str) -> Token:
        \"\"\"One token, without its secret.\"\"\"

Its name is the operationId, its docstring the summary, its result the schema of the answer. The
name or type of a parameter determines its value:

- ``runtime``; ``user``, who calls; ``call``, all of the request;
- ``body``: an `Input`, read member by member; or a value whose schema is in its annotation;
- ``query``: an `Input`; or any parameter whose type is a `MemberKind`, which is one member of it;
- a part of the path, by its name (`id_` for ``{id}``);
- a header: `IfMatch`, `IfNoneMatch`, `LastEventId`, `Once` (a repetition gets the first answer).

A function returns its answer, None (204), or a `Response` with its own status or headers; then the
annotation gives the body's type: ``Annotated[Response, Token]``.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from service.access.user import LOCAL_USER, Role, User
from service.commits.commands import Key
from service.http.call import Call
from service.http.fields import REQUIRED, Field, schema_of
from service.http.kinds import MemberKind
from service.http.route import Body, Documented, FailureForm, Header, Route
from service.rendering import recall
from service.response import JSON, Response

if TYPE_CHECKING:
    from service.runtime import Runtime

_REF: Final = "#/components/schemas/{name}"


def _plain(name: str) -> str:
    return name.rstrip("_")


class Input(msgspec.Struct, kw_only=True, rename=_plain):
    """Base of bodies and queries: each member has a `MemberKind`; unknown members are errors."""


class Answer(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename=_plain):
    """Base of answers; a member whose default is `msgspec.UNSET` is left out."""


class OpenAnswer(msgspec.Struct, kw_only=True, rename=_plain):
    """Base of answers that may have other members, added by a command or a `to_json`."""


def doc(text: str) -> Meta:
    """Return the description of a member, for its annotation."""
    return Meta(description=text)


def one_of(words: Iterable[str]) -> Meta:
    """Return the restriction of a text to some words, for the annotation of a member."""
    return Meta(extra_json_schema={"enum": list(words)})


#: Members of answers.
Instant: TypeAlias = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
#: Amount of each resource, in the form for people.
Amounts: TypeAlias = dict[str, float | str]

IfMatch: TypeAlias = Annotated[str | None, Header("If-Match", "The ETag of the version to change.")]
IfNoneMatch: TypeAlias = Annotated[
    list[str], Header("If-None-Match", "A version: the answer is 304 if the Plan still has it.")
]
LastEventId: TypeAlias = Annotated[
    str | None, Header("Last-Event-ID", "The id of the last event received.")
]
#: Answers a call with an optional key, and stores the answer under the key.
KeyedAnswer: TypeAlias = Callable[[Key | None], Response]
#: Returns the answer stored under the call's key, or computes it.
Once: TypeAlias = Annotated[
    Callable[[KeyedAnswer], Response],
    Header(
        "Idempotency-Key",
        "A repeated key and request get the first answer, and nothing is done twice.",
    ),
]

#: Documentation of the Plan's version as the tag of an answer.
PLAN_TAG: Final = {"ETag": "Version of the Plan."}
#: Headers that prevent caches and proxies from delaying events.
STREAM_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def unchanged(tags: Sequence[str], tag: str) -> Response | None:
    """Return 304 if If-None-Match has the tag, else None."""
    return Response(304, headers={"ETag": f'"{tag}"'}) if {tag, "*"} & set(tags) else None


def kept_key(user: User, given: str) -> str:
    """Return the stored form of a key, which differs between users.

    Users differ if their names, roles or tenants do: an answer is returned only to a caller with
    the same access as its first caller. Without tokens the key is stored as given. Otherwise the
    stored key begins with a word and a space, which no given key contains.
    """
    if user is LOCAL_USER:
        return given
    return f"user {hashlib.sha256(f'{user.identity} {given}'.encode()).hexdigest()}"


def _once(runtime: Runtime, call: Call) -> Callable[[KeyedAnswer], Response]:
    """Return a function that returns the stored answer of a call's key, or computes it."""

    def once(answer: KeyedAnswer) -> Response:
        given = call.idempotency_key()
        if given is None:
            return answer(None)
        key = Key(kept_key(call.user, given), call.fingerprint)
        known = recall(runtime.planner, key)
        return answer(key) if known is None else known

    return once


Getter: TypeAlias = "Callable[[Runtime, Call], Any]"

_HEADERS: Final[Mapping[str, Getter]] = {
    "If-Match": lambda _runtime, call: call.if_match(),
    "If-None-Match": lambda _runtime, call: call.if_none_match(),
    "Last-Event-ID": lambda _runtime, call: call.headers.get("last-event-id"),
    "Idempotency-Key": _once,
}

_GIVEN: Final[Mapping[str, Getter]] = {
    "runtime": lambda runtime, _call: runtime,
    "user": lambda _runtime, call: call.user,
    "call": lambda _runtime, call: call,
}

Handler = TypeVar("Handler", bound=Callable[..., Any])


class CallOptions(TypedDict, total=False):
    """Options of a call that its handler does not define.

    Attributes
    ----------
    status, also
        Status of its answer (200 when absent), and others, with the same body except for 304.
    fails
        Codes with which it may fail, apart from those of all calls.
    headers
        Headers of its answer. For a call that creates, ``Location`` is set to its path and the id.
    links
        Calls that use a part of its answer (`links_from`).
    media, others
        Content type of its answer, and alternative ones for clients.
    examples, reads
        Example bodies that are valid as they are; content types that are accepted.
    live, role, failure, open_query
        As in `Route`.
    """

    status: int
    also: Mapping[int, str]
    fails: Iterable[str]
    headers: Mapping[str, str]
    links: Mapping[str, Mapping[str, Any]]
    media: str
    others: tuple[str, ...]
    examples: Mapping[str, Any]
    reads: tuple[str, ...]
    live: bool
    role: Role | None
    failure: FailureForm
    open_query: bool


#: Options of a call that are copied to its route.
_OF_ROUTES: Final = ("live", "role", "failure", "open_query")


class Calls(list[Route]):
    """The calls of one resource, in the order in which they are documented.

    Parameters
    ----------
    schemas
        Schemas by name that are described elsewhere (the cluster file), for `$ref`.
    """

    def __init__(self, schemas: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.schemas = schemas or {}

    def get(
        self, path: str, told: str, **options: Unpack[CallOptions]
    ) -> Callable[[Handler], Handler]:
        """See `add`, for GET."""
        return self.add("GET", path, told, options)

    def post(
        self, path: str, told: str, **options: Unpack[CallOptions]
    ) -> Callable[[Handler], Handler]:
        """See `add`, for POST."""
        return self.add("POST", path, told, options)

    def put(
        self, path: str, told: str, **options: Unpack[CallOptions]
    ) -> Callable[[Handler], Handler]:
        """See `add`, for PUT."""
        return self.add("PUT", path, told, options)

    def delete(
        self, path: str, told: str, **options: Unpack[CallOptions]
    ) -> Callable[[Handler], Handler]:
        """See `add`, for DELETE."""
        return self.add("DELETE", path, told, options)

    def add(
        self, method: str, path: str, told: str, options: CallOptions
    ) -> Callable[[Handler], Handler]:
        """Return the decorator that makes a function an API call; `told` describes its answer."""
        status = options.get("status", 200)
        headers = options.get("headers", {})
        own: dict[str, Any] = {name: one for name, one in options.items() if name in _OF_ROUTES}

        def keep(handler: Handler) -> Handler:
            plan = _Plan(handler, path)
            answer = Documented(
                told,
                plan.answer,
                headers,
                options.get("media", JSON),
                options.get("links", {}),
                options.get("others", ()),
            )
            answers = {status: answer} | {
                other: Documented(text, () if other == 304 else plan.answer)
                for other, text in options.get("also", {}).items()
            }
            located = path if method == "POST" and "Location" in headers else None
            body = plan.body
            if body is not None:
                reads, examples = options.get("reads", (JSON,)), options.get("examples", {})
                body = replace(body, media=reads, examples=examples)
            self.append(
                Route(
                    method,
                    path,
                    _camel(handler.__name__),
                    (inspect.getdoc(handler) or "").partition("\n\n")[0].replace("\n", " "),
                    _view(handler, plan.getters, status, located),
                    answers,
                    tuple(options.get("fails", ())),
                    plan.query,
                    tuple(plan.headers),
                    body,
                    kinds=plan.kinds,
                    schemas=self.schemas,
                    **own,
                )
            )
            return handler

        return keep


def _view(
    handler: Callable[..., Any],
    getters: Mapping[str, Getter],
    status: int,
    located: str | None,
) -> Callable[[Runtime, Call], Response]:
    """Return a view that calls a handler with its inputs, and makes a response of its result."""
    parts = tuple(getters.items())

    def view(runtime: Runtime, call: Call) -> Response:
        found = handler(**{name: get(runtime, call) for name, get in parts})
        if isinstance(found, Response):
            return found
        if found is None:
            return Response(204)
        return Response(
            status, found, {} if located is None else {"Location": f"{located}/{found.id}"}
        )

    return view


class _Plan:
    """Inputs and answer of a handler, derived from its signature."""

    def __init__(self, handler: Callable[..., Any], path: str) -> None:
        hints = get_type_hints(handler, include_extras=True)
        returned = hints.pop("return")
        self.getters: dict[str, Getter] = {}
        self.headers: list[Header] = []
        self.query: tuple[Field, ...] = ()
        self.body: Body | None = None
        defaults = {
            name: REQUIRED if one.default is inspect.Parameter.empty else one.default
            for name, one in inspect.signature(handler).parameters.items()
        }
        for name, hint in hints.items():
            header = _found(hint, Header)
            plain = _plain(name)
            if name in _GIVEN:
                self.getters[name] = _GIVEN[name]
            elif f"{{{plain}}}" in path:
                self.getters[name] = _path_part(plain)
            elif header is not None:
                self.headers.append(header)
                self.getters[name] = _HEADERS[header.name]
            elif name == "body":
                self.body, self.getters[name] = _body_of(hint)
            elif name == "query":
                self.query += fields_of(hint)
                self.getters[name] = _query_of(hint)
            else:
                self.query += (_field(plain, hint, defaults[name]),)
                self.getters[name] = _query_member(plain)
        args = get_args(returned)
        said = (
            args[1:] if get_origin(returned) is Annotated and args[0] is Response else (returned,)
        )
        self.answer = () if said[0] in (None, type(None)) else said
        self.kinds = tuple(one for one in self.answer if not isinstance(one, Mapping))


def answer_schema(body: tuple[Any, ...]) -> dict[str, Any]:
    """Return the JSON Schema of the body of an answer, as in `Documented`."""
    schemas = [dict(one) if isinstance(one, Mapping) else components((one,))[0][0] for one in body]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def components(kinds: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the schemas of types, and the components that they refer to."""
    found, parts = msgspec.json.schema_components(list(kinds), ref_template=_REF)
    return [_tidy(one) for one in found], {_noun(name): _tidy(one) for name, one in parts.items()}


def _noun(name: str) -> str:
    """Return the name of a component: `TokenView` becomes `Token`."""
    return name.removesuffix("View")


def _tidy(value: Any) -> Any:
    """Return a schema without redundant parts, with `null` as one of the types if allowed."""
    if isinstance(value, list):
        return [_tidy(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "object" and "properties" in value:
        value = {key: one for key, one in value.items() if key != "title"}
    tidy = {key: _tidy(one) for key, one in value.items()}
    if isinstance(value.get("$ref"), str):
        tidy["$ref"] = _noun(value["$ref"])
    if "properties" in tidy:  # members with a default are always present, too
        members = {name: _tidy(one) for name, one in value["properties"].items()}
        always = {name for name, one in members.items() if one.pop("default", one) is not one}
        required = [name for name in members if name in always or name in value["required"]]
        del tidy["required"]
        tidy |= {"properties": members} | ({"required": required} if required else {})
    options = tidy.get("anyOf")
    null = {"type": "null"}
    if isinstance(options, list) and null in options and len(options) == 2:
        one = next(option for option in options if option != null)
        if isinstance(one.get("type"), str) and "enum" not in one:
            del tidy["anyOf"]
            tidy = {**one, **tidy, "type": [one["type"], "null"]}
    return tidy


def fields_of(kind: type[Input]) -> tuple[Field, ...]:
    """Return the members of an input for reading and description."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        _field(
            one.encode_name,
            hints[one.name],
            _default_of(one),
        )
        for one in msgspec.structs.fields(kind)
    )


def _default_of(one: msgspec.structs.FieldInfo) -> Any:
    if one.default_factory is not msgspec.NODEFAULT:
        return one.default_factory()
    return REQUIRED if one.default is msgspec.NODEFAULT else one.default


def _field(name: str, hint: Any, default: Any) -> Field:
    kind, text = _found(hint, MemberKind), _found(hint, Meta)
    if kind is None or text is None or text.description is None:
        raise TypeError(f"{name!r} has no kind or no description")
    return Field(name, text.description, kind.schema, kind.read, default)


_Mark = TypeVar("_Mark")


def _found(hint: Any, mark: type[_Mark]) -> _Mark | None:
    """Return the mark of a given type in an annotation, or in a part of a union."""
    if get_origin(hint) is Annotated:
        base, *said = get_args(hint)
        return next((one for one in said if isinstance(one, mark)), None) or _found(base, mark)
    if get_origin(hint) in (Union, UnionType):
        return next((one for part in get_args(hint) if (one := _found(part, mark))), None)
    return None


def _path_part(name: str) -> Getter:
    return lambda _runtime, call: call.path[name]


def _query_member(name: str) -> Getter:
    return lambda _runtime, call: call.query[name]


def _query_of(kind: type[Input]) -> Getter:
    make = maker_of(kind)
    return lambda _runtime, call: make(call.query)


def _body_of(hint: Any) -> tuple[Body, Getter]:
    if isinstance(hint, type) and issubclass(hint, Input):
        fields, make = fields_of(hint), maker_of(hint)
        return Body(schema_of(fields), fields), lambda _runtime, call: make(call.body)
    schema = _found(hint, dict)
    if schema is None:
        raise TypeError(f"a body is an Input, or its annotation holds its schema: {hint}")
    return Body(schema), lambda _runtime, call: call.body


_Made = TypeVar("_Made", bound=Input)


def maker_of(kind: type[_Made]) -> Callable[[Mapping[str, Any]], _Made]:
    """Return a function that builds an input from values by their names in the request."""
    names = tuple((one.name, one.encode_name) for one in msgspec.structs.fields(kind))
    return lambda values: kind(**{name: values[sent] for name, sent in names})


def _camel(name: str) -> str:
    head, *rest = name.strip("_").split("_")
    return head + "".join(part.title() for part in rest)
