"""The kit of resources: a function's signature is what is read, checked, answered and described."""

from __future__ import annotations

from typing import Annotated, Any, cast

import pytest
from msgspec import UNSET, UnsetType

from service.access.user import LOCAL_USER
from service.http.answering import read_call
from service.http.call import Call
from service.http.fields import read_query
from service.http.kinds import Flag, Id, integer
from service.http.kit import Answer, Calls, Input, components, doc
from service.problems import ApiProblemError
from service.response import Response
from service.runtime import Runtime

_RUNTIME = cast("Runtime", None)


class NewThing(Input):
    name: Annotated[Id, doc("What it is called.")]
    size: Annotated[int, integer(1, 9), doc("How large.")] = 3


class ThingQuery(Input):
    from_: Annotated[Id | None, doc("From where.")] = None


class ThingView(Answer, kw_only=True):
    id: str
    size: int = 0
    note: str | UnsetType = UNSET
    owner: str | None


calls = Calls()


@calls.post("/v1/things", "It is there.", status=201, headers={"Location": "Path."})
def create_thing(
    runtime: Runtime,
    body: NewThing,
    query: ThingQuery,
    *,
    twice: Annotated[Flag, doc("Make two.")] = False,
) -> ThingView:
    """Make a thing.

    What is said here is for readers of the code.
    """
    size = body.size * (2 if twice else 1)
    return ThingView(id=body.name, size=size, owner=query.from_)


@calls.delete("/v1/things/{id}", "It is gone.", status=204)
def delete_thing(id_: str) -> None:
    """Forget a thing."""
    assert id_ == "a"


def _sent(raw: bytes, query: dict[str, list[str]]) -> Call:
    environ = {"REQUEST_METHOD": "POST", "PATH_INFO": "/v1/things"}
    return read_call(calls[0], environ | {"CONTENT_TYPE": "application/json"}, raw, {}, query)


def test_a_call_is_read_answered_and_told_where_it_is() -> None:
    """Body, query and one member of the query reach the handler by the names of its parameters."""
    call = _sent(b'{"name": "a"}', {"from": ["x"], "twice": ["true"]})
    response = calls[0].view(_RUNTIME, call)
    assert (response.status, response.headers) == (201, {"Location": "/v1/things/a"})
    assert response.payload() == b'{"id":"a","size":6,"owner":"x"}'


def test_all_faults_of_a_body_are_reported_at_once() -> None:
    """Each with its pointer, and what was perhaps meant."""
    with pytest.raises(ApiProblemError) as caught:
        _sent(b'{"nme": "a", "size": 10}', {})
    errors = caught.value.document.errors
    assert [(one.pointer, one.fix) for one in errors] == [
        ("/nme", "did you mean 'name'?"),
        ("/name", "give it: What it is called"),
        ("/size", None),
    ]


def test_a_query_knows_the_members_of_its_structure_and_of_the_signature() -> None:
    """A trailing underscore keeps a word of Python apart, and is not sent."""
    assert read_query(calls[0].query, {}) == {"from": None, "twice": False}


def test_a_route_is_described_by_its_function() -> None:
    """Its name, the first paragraph of its docstring, its status."""
    made, gone = calls
    assert (made.name, made.summary, [*made.answers]) == ("createThing", "Make a thing.", [201])
    assert (gone.name, gone.answers[204].body, gone.body) == ("deleteThing", (), None)
    call = Call({"id": "a"}, {}, {}, None, "", b"", LOCAL_USER)
    assert gone.view(_RUNTIME, call) == Response(204)


def test_an_answer_says_which_members_are_always_there() -> None:
    """All but those that may be left out; `View` is not in the name of the component."""
    (reference,), parts = components([ThingView])
    assert reference == {"$ref": "#/components/schemas/Thing"}
    assert parts["Thing"] == {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "size": {"type": "integer"},
            "note": {"type": "string"},
            "owner": {"type": ["string", "null"]},
        },
        "required": ["id", "size", "owner"],
        "additionalProperties": False,
    }


def test_a_member_without_a_kind_is_refused() -> None:
    """What cannot be read and described is not a parameter."""

    def list_things(most: int) -> ThingView:
        raise AssertionError(most)

    add: Any = Calls().get("/v1/things", "All.")
    with pytest.raises(TypeError, match="'most' has no kind or no description"):
        add(list_things)
