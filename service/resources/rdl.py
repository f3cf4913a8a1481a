"""RDL: check and explain a request without submitting it."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from planner.placement import Code
from rdl.codecs.json_codec import to_json
from rdl.compile.source import is_rdl_text, read_source
from rdl.errors import RdlError
from rdl.meaning.outline import outline_of
from rdl.meaning.questions import questions
from rdl.meaning.request_meaning import meaning_json, meaning_lines, meaning_of
from rdl.text.formatter import format_expression
from service.asks import Rdl, text_of
from service.http.kit import Calls, Count, Input, OpenAnswer, doc
from service.problems import problem_of_rdl
from service.response import Response
from service.runtime import Runtime


class RdlSource(Input):
    rdl: Rdl


class OutlinePartView(OpenAnswer):
    path: Annotated[str, doc("As in a binding.")]
    operator: str
    name: str | None
    said: Annotated[str, doc("Text that names the part of the request.")]
    span: Annotated[list[Count] | None, doc("Place in the RDL text.")]


class RunWindowView(OpenAnswer):
    start: float
    end: float
    start_at: str | UnsetType = UNSET
    end_at: str | UnsetType = UNSET


_WINDOW: Final = doc("Window of a run: seconds from the origin, or RFC 3339 if there is an origin.")
_RANGES: Final = doc("Minimum and maximum by resource, as text.")
_Range: TypeAlias = Annotated[list[str], Meta(min_length=2, max_length=2)]


class MeaningView(OpenAnswer):
    zone: str | None
    often: str
    runs: Count
    first: Annotated[RunWindowView, _WINDOW]
    last: Annotated[RunWindowView, _WINDOW]
    next: Annotated[
        list[RunWindowView],
        doc("Windows of the runs between the first and the last, at most nine."),
    ]
    least_time: float
    room: float
    work: Annotated[dict[str, _Range], _RANGES]
    at_once: Annotated[dict[str, _Range], _RANGES]


class Check(OpenAnswer):
    valid: Annotated[bool, Meta(extra_json_schema={"const": True})]
    canonical: str
    json: Annotated[dict[str, Any], doc("The same request in the JSON form.")]
    notes: list[str]
    questions: Annotated[
        list[dict[str, Any]],
        doc("Numbers that may be mistakes, each with its position."),
    ]
    atoms: Count
    outline: Annotated[
        list[OutlinePartView],
        doc("The parts of the request, parents before children; the first 500."),
    ]
    meaning: Annotated[
        MeaningView | None, doc("Description for users; null for a best-effort session.")
    ]
    lines: Annotated[list[list[str]], doc("Description for users: pairs of label and text.")]


calls = Calls()


@calls.post(
    "/v1/rdl/check",
    "The request can be submitted.",
    fails=(Code.MALFORMED, Code.UNSATISFIABLE, Code.BEYOND_HORIZON),
)
def check_rdl(runtime: Runtime, body: RdlSource) -> Annotated[Response, Check]:
    """Compile a request: return its canonical text and notes, or all problems with their
    positions."""
    source = body.rdl
    try:
        expression = read_source(source)
        graph = runtime.compile(expression, runtime.now_ms(), text_of(source))
    except RdlError as error:
        raise problem_of_rdl(error, "/rdl") from error
    meaning = meaning_of(graph)
    is_json = isinstance(source, str) and not is_rdl_text(source)
    asked = questions(json.loads(str(source)) if is_json else source)
    found = {
        "valid": True,
        "canonical": format_expression(expression),
        "json": to_json(expression),
        "notes": list(graph.notes),
        "questions": [one.to_json() for one in asked],
        "atoms": len(graph.atoms),
        "outline": [part.to_json() for part in outline_of(expression)],
        "meaning": None if meaning is None else meaning_json(meaning, graph.grid),
        "lines": [] if meaning is None else list(meaning_lines(meaning, graph.grid)),
    }
    return Response(200, found)
