"""Check RDL without asking for anything."""

from __future__ import annotations

import json

from rdl.codecs.json_codec import to_json
from rdl.compile.source import is_rdl_text, read_source
from rdl.errors import RdlError
from rdl.meaning.outline import outline_of
from rdl.meaning.questions import questions
from rdl.meaning.request_meaning import meaning_json, meaning_lines, meaning_of
from rdl.text.formatter import format_expression
from service.problems import problem_of_rdl
from service.runtime import Runtime


def check_rdl(runtime: Runtime, source: object) -> dict[str, object]:
    """Compile only; return its canonical text and parts, what it means, and what is asked.

    Raises
    ------
    ApiProblemError
        With every problem of the source.
    """
    try:
        expression = read_source(source)
        graph = runtime.compile(expression, runtime.now_ms(), text_of(source))
    except RdlError as error:
        raise problem_of_rdl(error, "/rdl") from error
    meaning = meaning_of(graph)
    is_json = isinstance(source, str) and not is_rdl_text(source)
    asked = questions(json.loads(str(source)) if is_json else source)
    return {
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


def text_of(rdl: object) -> str | None:
    """Return the text of RDL that is text; problems point into it."""
    return rdl if isinstance(rdl, str) else None
