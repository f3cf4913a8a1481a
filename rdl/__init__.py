"""RDL: requests from text or JSON to a checked, normalised WorkGraph.

The names below are for users of the package; docs/python.md has examples. Everything else is
internal. A name is imported from its module at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rdl.lazy_names import lazy_names

if TYPE_CHECKING:
    from rdl.codecs.json_codec import to_json
    from rdl.compile.compiler import compile_expression, compile_source
    from rdl.compile.context import CompileContext, MachineShape
    from rdl.compile.source import read_source
    from rdl.errors import Problem, RdlError
    from rdl.expressions import (
        Absolute,
        AfterSubmission,
        AllOf,
        AnyOf,
        Atom,
        Edge,
        Every,
        Expression,
        Gap,
        Graph,
        Offset,
        Order,
        Together,
        Void,
        Window,
    )
    from rdl.resources import Resources
    from rdl.text.formatter import format_expression, format_pretty
    from rdl.time_grid import TimeGrid
    from rdl.work_graph import WorkGraph

__all__ = [
    "Absolute",
    "AfterSubmission",
    "AllOf",
    "AnyOf",
    "Atom",
    "CompileContext",
    "Edge",
    "Every",
    "Expression",
    "Gap",
    "Graph",
    "MachineShape",
    "Offset",
    "Order",
    "Problem",
    "RdlError",
    "Resources",
    "TimeGrid",
    "Together",
    "Void",
    "Window",
    "WorkGraph",
    "compile_expression",
    "compile_source",
    "format_expression",
    "format_pretty",
    "read_source",
    "to_json",
]

#: The module that defines each name.
_HOMES: Final = {
    "Absolute": "rdl.expressions",
    "AfterSubmission": "rdl.expressions",
    "AllOf": "rdl.expressions",
    "AnyOf": "rdl.expressions",
    "Atom": "rdl.expressions",
    "CompileContext": "rdl.compile.context",
    "Edge": "rdl.expressions",
    "Every": "rdl.expressions",
    "Expression": "rdl.expressions",
    "Gap": "rdl.expressions",
    "Graph": "rdl.expressions",
    "MachineShape": "rdl.compile.context",
    "Offset": "rdl.expressions",
    "Order": "rdl.expressions",
    "Together": "rdl.expressions",
    "Problem": "rdl.errors",
    "RdlError": "rdl.errors",
    "Resources": "rdl.resources",
    "TimeGrid": "rdl.time_grid",
    "Void": "rdl.expressions",
    "Window": "rdl.expressions",
    "WorkGraph": "rdl.work_graph",
    "compile_expression": "rdl.compile.compiler",
    "compile_source": "rdl.compile.compiler",
    "format_expression": "rdl.text.formatter",
    "format_pretty": "rdl.text.formatter",
    "read_source": "rdl.compile.source",
    "to_json": "rdl.codecs.json_codec",
}


if not TYPE_CHECKING:  # type checkers use the imports above, and find misspelt names
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    """Return all names, those not imported yet included."""
    return sorted({*globals(), *__all__})
