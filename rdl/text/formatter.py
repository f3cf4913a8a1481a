"""Expressions to canonical RDL text, which reads back as the same expression."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, assert_never

from rdl.durations import instant_text, seconds_text
from rdl.expressions import (
    AllOf,
    AnyOf,
    Atom,
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
from rdl.operators import date_words, day_words, month_day_text, months_text
from rdl.resources import Resources
from rdl.time_grid import duration_text

_WORD = re.compile(r"[A-Za-z_](?:[\w./]|-(?!>))*", re.ASCII)
_WIDTH: Final = 88

#: Most characters of an amount with its resource, of a time, of a weight (the least float has 324
#: decimals), and of all the rest of an operator: its name, its numbers, a label of 200 characters.
_LONGEST_AMOUNT: Final = 140
_LONGEST_TIME: Final = 32
_LONGEST_WEIGHT: Final = 340
_LONGEST_HEAD: Final = 700


def format_expression(expression: Expression) -> str:
    """Return the canonical text: one line, seconds, arguments in order, defaults left out.

    ``parse(format_expression(e)) == e`` for every expression that a parser can return; a
    `handover` or `credit` that is the default anyway is left out.
    """
    pieces: list[str] = []
    _write(expression, pieces.append)
    return "".join(pieces)


def format_pretty(expression: Expression) -> str:
    """Return the text over several lines for people: indented, durations with units.

    It reads back as the same expression too.
    """
    return "\n".join(_lines(expression))


def most_characters(expression: Expression) -> int:
    """Return how many characters an expression adds to a canonical text at most, children apart.

    This is cheap: a text that is surely short enough is not written to be measured.
    """
    named = 0 if expression.name is None else 2 * len(expression.name) + 4
    match expression:
        case Atom(bundle=bundle, domain=domain, within=within):
            escaped = 2 * len(domain or "") + 2 * len(within or "") + named
            return _LONGEST_HEAD + _LONGEST_AMOUNT * len(bundle) + escaped
        case Void(bundle=bundle):
            return named + _LONGEST_HEAD + _LONGEST_AMOUNT * len(bundle)
        case AnyOf(prefer=prefer):
            return named + _LONGEST_HEAD + _LONGEST_WEIGHT * len(prefer or ())
        case Together(within=within):
            return named + _LONGEST_HEAD + 2 * len(within or "")
        case Graph(names=names, edges=edges):
            name = 2 * max(map(len, names), default=0) + 4  # quotes and what they escape
            return (
                named
                + _LONGEST_HEAD
                + (len(names) + 2 * len(edges)) * name
                + len(edges) * (2 * _LONGEST_TIME + 10)
            )
        case Every(without=without, holidays=holidays, dates=dates):
            listed = 12 * (len(without) + len(dates))
            return named + _LONGEST_HEAD + listed + 2 * len(holidays or "")
        case _:
            return named + _LONGEST_HEAD


def _write(expression: Expression, put: Callable[[str], None], *, bare: bool = False) -> None:
    """Write an expression; `bare` leaves its own name out, which its graph has written."""
    heads, tail = _delimiters(expression, seconds_text)
    if expression.name is not None and not bare:
        put(f"{_name(expression.name)}: ")
    children = children_of(expression)
    is_graph = isinstance(expression, Graph)
    for head, child in zip(heads, children, strict=False):
        put(head)
        _write(child, put, bare=is_graph)
    put(tail if children else heads[0] + tail)


def _lines(expression: Expression, *, bare: bool = False) -> list[str]:
    """Return lines of at most _WIDTH characters where the parts allow it, children indented."""
    heads, tail = _delimiters(expression, _short_duration)
    if expression.name is not None and not bare:
        heads[0] = f"{_name(expression.name)}: {heads[0]}"
    children = children_of(expression)
    if not children:
        return [heads[0] + tail]
    is_graph = isinstance(expression, Graph)
    blocks = [_lines(child, bare=is_graph) for child in children]
    if all(len(block) == 1 for block in blocks):
        flat = "".join(head + block[0] for head, block in zip(heads, blocks, strict=True)) + tail
        if len(flat) <= _WIDTH:
            return [flat]
    return _broken_lines(heads, blocks, tail)


def _broken_lines(heads: list[str], blocks: list[list[str]], tail: str) -> list[str]:
    """Put each child on lines of its own; `heads` are the texts before them on one line."""
    opening = heads[0].index("(") + 1
    lines = [heads[0][:opening]]
    # `every(24h, ` has an argument before its child, `graph(a: ` a name.
    starts = [heads[0][opening:], *(head[2:] for head in heads[1:])]
    for index, (start, block) in enumerate(zip(starts, blocks, strict=True)):
        last = index == len(blocks) - 1
        inner = [start + block[0], *block[1:]]
        inner[-1] += _after_child(tail) if last else ","
        lines.extend(f"  {line}" for line in inner)
    rest = tail.lstrip(",; ")
    return [*lines, rest if rest == ")" else f"  {rest[:-1]}", *([] if rest == ")" else [")"])]


def _after_child(tail: str) -> str:
    return tail[0] if tail[0] in ",;" else ""


def _delimiters(expression: Expression, time: Callable[[int], str]) -> tuple[list[str], str]:
    """Return the texts before each child (at least one entry) and after the last."""
    match expression:
        case Atom():
            return [_atom(expression, time)], ")"
        case Void(bundle=bundle, maximum=maximum):
            return [f"void({_bundle(bundle)}, {maximum}"], ")"
        case AnyOf(options=options, prefer=prefer):
            tail = "" if prefer is None else f"prefer=[{', '.join(map(_weight, prefer))}]"
            return _list_heads("any", len(options)), _tail(len(options), tail)
        case AllOf(children=children):
            return _list_heads("all", len(children)), ")"
        case Order(children=children, gap=gap):
            tail = "" if gap is None else f"gap={_gap(gap, time)}"
            return _list_heads("order", len(children)), _tail(len(children), tail)
        case Graph():
            return _graph(expression, time)
        case Together(children=children, within=within):
            tail = "" if within is None else _place(within, expression.values)
            return _list_heads("together", len(children)), _tail(len(children), tail)
        case Window(start=start, end=end, zone=zone):
            place = "" if zone is None else f", zone={_string(zone)}"
            if start is None:
                return ["deadline("], f", {_instant(end, time)}{place})"
            return ["window("], f", {_instant(start, time)}, {_instant(end, time)}{place})"
        case Every(period_ms=period_ms):
            months = expression.months
            period = months_text(months) if months else time(period_ms)
            return [f"every({period}, "], _every_tail(expression, time)
        case _:
            assert_never(expression)


def _list_heads(operator: str, count: int) -> list[str]:
    return [f"{operator}(", *[", "] * (count - 1)]


def _tail(count: int, argument: str) -> str:
    return f"{', ' if count and argument else ''}{argument})"


def _atom(atom: Atom, time: Callable[[int], str]) -> str:
    text = (
        f"atom({_bundle(atom.bundle)}, {atom.minimum}, {atom.maximum}, "
        f"{time(atom.lease_ms)}, {time(atom.work_ms)}"
    )
    if atom.multiple != 1:
        text += f", multiple={atom.multiple}"
    if atom.on is not None:
        text += f", on={_string(atom.on)}"
    if atom.spread:
        text += f", spread={atom.spread}"
    if atom.domain is not None:
        text += f", by={_name(atom.domain)}"
    if atom.within is not None:
        text += f", {_place(atom.within, atom.values)}"
    for name, answer in atom.odd_answers.items():
        text += f", {name}={'yes' if answer else 'no'}"
    return text


def _place(within: str, values: int) -> str:
    return f"within={_name(within)}" + (f", values={values}" if values != 1 else "")


def _graph(graph: Graph, time: Callable[[int], str]) -> tuple[list[str], str]:
    names = [_name(name) for name in graph.names]
    heads = [f"{', ' if index else 'graph('}{name}: " for index, name in enumerate(names)]
    arrows = []
    for edge in graph.edges:
        gap = "" if edge.gap is None else f" gap={_gap(edge.gap, time)}"
        arrows.append(f"{names[edge.before]} -> {names[edge.after]}{gap}")
    return heads or ["graph("], f"; {', '.join(arrows)})" if arrows else ")"


def _every_tail(every: Every, time: Callable[[int], str]) -> str:
    parts = []
    if every.times is not None:
        parts.append(f"times={every.times}")
    if every.until is not None:
        parts.append(f"until={_instant(every.until, time)}")
    if every.anchor is not None:
        parts.append(f"anchor={_instant(every.anchor, time)}")
    if every.zone is not None:
        parts.append(f"zone={_string(every.zone)}")
    if not every.same_offset:
        parts.append("same_offset=false")
    if every.days is not None:
        parts.append(f"days=[{', '.join(day_words(every.days))}]")
    if every.without:
        parts.append(f"except=[{', '.join(date_words(every.without))}]")
    if every.holidays is not None:
        parts.append(f"holidays={_name(every.holidays)}")
    if every.dates:
        parts.append(f"dates=[{', '.join(date_words(every.dates))}]")
    if every.day is not None:
        parts.append(f"day={month_day_text(every.day)}")
    return _tail(1, ", ".join(parts))


def _bundle(bundle: Resources) -> str:
    return f"<{bundle}>"


def _gap(gap: Gap, time: Callable[[int], str]) -> str:
    minimum = time(gap.minimum_ms)
    return minimum if gap.maximum_ms is None else f"{minimum}..{time(gap.maximum_ms)}"


def _instant(instant: Instant, time: Callable[[int], str]) -> str:
    return time(instant.ms) if isinstance(instant, Offset) else instant_text(instant)


def _weight(weight: float) -> str:
    text = format(Decimal(repr(weight)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _name(name: str) -> str:
    return name if _WORD.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _short_duration(ms: int) -> str:
    """Return ``40m`` or ``1h30m``, but seconds where a duration would take three units or more."""
    text = duration_text(ms)
    return text if sum(letter.isalpha() for letter in text) <= 2 else seconds_text(ms)
