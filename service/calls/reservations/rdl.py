"""Check RDL without asking for anything."""

from __future__ import annotations

from rdl.codecs.json_codec import to_json
from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.text.formatter import format_expression
from service.problems import problem_of_rdl
from service.runtime import Runtime


def check_rdl(runtime: Runtime, source: object) -> dict[str, object]:
    """Compile only; return canonical text, JSON form and notes.

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
    return {
        "valid": True,
        "canonical": format_expression(expression),
        "json": to_json(expression),
        "notes": list(graph.notes),
        "atoms": len(graph.atoms),
    }


def text_of(rdl: object) -> str | None:
    """Return the text of RDL that is text; problems point into it."""
    return rdl if isinstance(rdl, str) else None
