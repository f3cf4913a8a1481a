"""RDL as JSON: objects to expressions and back, with a JSON pointer for every problem."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, assert_never

from rdl.codecs.json_reader import JsonReader
from rdl.codecs.json_values import escape
from rdl.durations import instant_text, seconds_text
from rdl.errors import RdlError, TooManyProblemsError
from rdl.expressions import (
    AllOf,
    AnyOf,
    Atom,
    Edge,
    Every,
    Expression,
    Gap,
    Graph,
    Instant,
    Offset,
    Order,
    Together,
    Void,
    Window,
    children_of,
)
from rdl.limits import DEFAULT_LIMITS, SourceLimits
from rdl.operators import date_words, day_words, month_day_text, months_text


def from_json(value: object, limits: SourceLimits = DEFAULT_LIMITS) -> Expression:
    """Return the expression that a JSON value says (docs/rdl.md, "As JSON").

    Raises
    ------
    RdlError
        With every problem found, each with its JSON pointer.
    """
    reader = JsonReader(limits)
    try:
        expression = reader.expression(value, "")
    except TooManyProblemsError:
        expression = None
    if reader.problems or expression is None:
        raise RdlError(tuple(reader.problems), None, tuple(reader.orphans))
    return expression


def pointer_of(expression: Expression, path: str) -> str:
    """Return the JSON pointer, in the expression's JSON form, of a source path.

    Parameters
    ----------
    path
        Child numbers joined by dots, each with an optional ``@k``: ``""`` is the whole,
        ``0@3.1`` the second child of the fourth occurrence of the first child.

    Raises
    ------
    ValueError
        If the expression has no such path.
    """
    pointer = ""
    here = expression
    for part in path.split(".") if path else []:
        number = part.partition("@")[0]
        children = children_of(here)
        if not number.isdecimal() or int(number) >= len(children):
            raise ValueError(f"the expression has no path {path!r}")
        pointer += _child_pointer(here, int(number))
        here = children[int(number)]
    return pointer


def to_json(expression: Expression) -> dict[str, Any]:
    """Return the JSON form, exactly: ``from_json(to_json(e)) == e``.

    Only a `handover` or `credit` that is the default anyway is left out.
    """
    body = _operator_json(expression)
    return body if expression.name is None else {"name": expression.name, **body}


def _operator_json(expression: Expression) -> dict[str, Any]:
    match expression:
        case Atom():
            return {"atom": _atom_json(expression)}
        case Void(bundle=bundle, maximum=maximum):
            return {"void": {"bundle": bundle.to_json(), "max": maximum}}
        case AnyOf(options=options, prefer=prefer):
            body = {"any": [to_json(option) for option in options]}
            return body if prefer is None else {**body, "prefer": list(prefer)}
        case AllOf(children=children):
            return {"all": [to_json(child) for child in children]}
        case Order(children=children, gap=gap):
            body = {"order": [to_json(child) for child in children]}
            return body if gap is None else {**body, "gap": _gap_json(gap)}
        case Graph(names=names, children=children, edges=edges):
            # The name of a child is its key.
            parts = {
                name: _operator_json(child) for name, child in zip(names, children, strict=True)
            }
            return {"graph": {"nodes": parts, "edges": [_edge_json(e, names) for e in edges]}}
        case Together(children=children, within=within):
            body = {"together": [to_json(child) for child in children]}
            return body | _place_json(within, expression.values)
        case Window():
            return _window_json(expression)
        case Every():
            return {"every": {**_every_json(expression), "of": to_json(expression.of)}}
        case _:
            assert_never(expression)


def _child_pointer(expression: Expression, index: int) -> str:
    match expression:
        case AnyOf():
            return f"/any/{index}"
        case AllOf():
            return f"/all/{index}"
        case Order():
            return f"/order/{index}"
        case Together():
            return f"/together/{index}"
        case Graph(names=names):
            return f"/graph/nodes/{escape(names[index])}"
        case Window(start=start):
            return "/deadline/of" if start is None else "/window/of"
        case _:
            return "/every/of"


def _atom_json(atom: Atom) -> dict[str, Any]:
    body: dict[str, Any] = {
        "bundle": atom.bundle.to_json(),
        "min": atom.minimum,
        "max": atom.maximum,
        "lease": _time_json(atom.lease_ms),
        "work": _time_json(atom.work_ms),
    }
    if atom.multiple != 1:
        body["multiple"] = atom.multiple
    if atom.on is not None:
        body["on"] = atom.on
    if atom.spread:
        body["spread"] = atom.spread
    if atom.domain is not None:
        body["by"] = atom.domain
    return body | _place_json(atom.within, atom.values) | atom.odd_answers


def _place_json(within: str | None, values: int) -> dict[str, Any]:
    body: dict[str, Any] = {} if within is None else {"within": within}
    return body if values == 1 else {**body, "values": values}


def _window_json(window: Window) -> dict[str, Any]:
    times: dict[str, Any] = {"end": _instant_json(window.end)}
    if window.start is not None:
        times = {"start": _instant_json(window.start), **times}
    if window.zone is not None:
        times["zone"] = window.zone
    of = to_json(window.of)
    return {"deadline" if window.start is None else "window": {**times, "of": of}}


def _every_json(every: Every) -> dict[str, Any]:
    period = months_text(every.months) if every.months else _time_json(every.period_ms)
    body: dict[str, Any] = {"period": period}
    if every.times is not None:
        body["times"] = every.times
    if every.until is not None:
        body["until"] = _instant_json(every.until)
    if every.anchor is not None:
        body["anchor"] = _instant_json(every.anchor)
    if every.zone is not None:
        body["zone"] = every.zone
    if not every.same_offset:
        body["same_offset"] = False
    if every.days is not None:
        body["days"] = day_words(every.days)
    if every.without:
        body["except"] = date_words(every.without)
    if every.holidays is not None:
        body["holidays"] = every.holidays
    if every.dates:
        body["dates"] = date_words(every.dates)
    if every.day is not None:
        day = every.day
        is_number = day.weekday is None and day.number > 0
        body["day"] = day.number if is_number else month_day_text(day)
    return body


def _edge_json(edge: Edge, names: Sequence[str]) -> list[Any]:
    ends = [names[edge.before], names[edge.after]]
    return ends if edge.gap is None else [*ends, {"gap": _gap_json(edge.gap)}]


def _gap_json(gap: Gap) -> Any:
    minimum = _time_json(gap.minimum_ms)
    return minimum if gap.maximum_ms is None else [minimum, _time_json(gap.maximum_ms)]


def _instant_json(instant: Instant) -> int | float | str:
    return _time_json(instant.ms) if isinstance(instant, Offset) else instant_text(instant)


def _time_json(ms: int) -> int | float | str:
    """Return seconds as a number, or as a string where a float would not be exact."""
    if ms % 1000 == 0:
        return ms // 1000
    seconds = ms / 1000
    return seconds if Fraction(repr(seconds)) * 1000 == ms else seconds_text(ms)
