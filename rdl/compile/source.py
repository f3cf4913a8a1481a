"""Read the source of a request: RDL text, RDL as JSON, or YARN JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from rdl.codecs.json_codec import from_json, pointer_of
from rdl.codecs.strict_json import JsonTextError, read_json
from rdl.codecs.yarn import from_yarn, is_yarn
from rdl.compile.checker import check
from rdl.errors import MALFORMED, Problem, RdlError
from rdl.expressions import Expression
from rdl.limits import DEFAULT_LIMITS, MOST_PROBLEMS, SourceLimits
from rdl.text.parser import parse


def read_source(value: object, limits: SourceLimits = DEFAULT_LIMITS) -> Expression:
    """Return the expression of a source.

    Parameters
    ----------
    value
        A text (RDL, or JSON if it begins with ``{``) or a parsed JSON object.

    Raises
    ------
    RdlError
        With every problem found; spans for RDL text and for text that is not JSON, else pointers.
    """
    try:
        return _read(value, limits)
    except RdlError as error:
        raise _with_findings(error, limits) from error


def is_rdl_text(value: object) -> TypeGuard[str]:
    """Return whether a source is RDL text, not JSON."""
    return isinstance(value, str) and not value.lstrip().startswith("{")


def _with_findings(error: RdlError, limits: SourceLimits) -> RdlError:
    """Return the error with further problems of the parts that could be read."""
    problems = dict.fromkeys(error.problems)
    for fragment, pointer in error.fragments:
        for trouble in check(fragment, limits).troubles:
            span = trouble.expression.span if error.source is not None else None
            inside = None if span is not None else pointer + pointer_of(fragment, trouble.path)
            found = Problem(trouble.code, trouble.message, span, inside, trouble.fix)
            problems[found] = None
    in_order = sorted(problems, key=lambda problem: problem.span or (0, 0))
    return RdlError(tuple(in_order[:MOST_PROBLEMS]), error.source)


def _read(value: object, limits: SourceLimits) -> Expression:
    if is_rdl_text(value):
        return parse(value, limits)
    if isinstance(value, str):
        return _read(_read_json(value, limits), limits)
    if isinstance(value, Mapping):
        return from_yarn(value, limits).expression if is_yarn(value) else from_json(value, limits)
    message = "a request is RDL text or a JSON object"
    raise RdlError((Problem(MALFORMED, message, pointer="", fix="write such as atom(...)"),))


def _read_json(text: str, limits: SourceLimits) -> object:
    if len(text) > limits.max_source:
        message = f"the text has {len(text)} characters"
        raise RdlError((Problem(MALFORMED, message, fix=f"write at most {limits.max_source}"),))
    try:
        return read_json(text)
    except JsonTextError as error:
        if error.at is None:
            raise RdlError((Problem(MALFORMED, error.message, fix=error.fix),)) from error
        span = (error.at[0], error.at[0] + 1)
        problem = Problem(MALFORMED, error.message, span, fix="write an object {...}")
        raise RdlError((problem,), text) from error
