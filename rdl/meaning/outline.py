"""The parts of a request as a list: a description of each, and its position in the source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, assert_never

from rdl.durations import instant_text
from rdl.expressions import (
    AfterSubmission,
    AllOf,
    AnyOf,
    Atom,
    Every,
    Expression,
    Graph,
    Instant,
    MonthDay,
    Offset,
    Order,
    Span,
    Together,
    Void,
    Window,
    children_of,
)
from rdl.names import place_words
from rdl.operators import day_words, month_day_text, months_text
from rdl.time_grid import duration_text

#: Most parts that are listed.
MOST_PARTS: Final = 500


@dataclass(frozen=True, slots=True)
class OutlinePart:
    """One part of a request.

    Attributes
    ----------
    path
        Child numbers joined by dots, as in the binding of a refusal; occurrences left out.
    said
        Its own part of the request, without its children.
    span
        Its position in the source; None if that is JSON.
    """

    path: str
    operator: str
    name: str | None
    said: str
    span: Span | None

    def to_json(self) -> dict[str, object]:
        """Return plain JSON."""
        return {
            "path": self.path,
            "operator": self.operator,
            "name": self.name,
            "said": self.said,
            "span": None if self.span is None else list(self.span),
        }


def outline_of(expression: Expression, most: int = MOST_PARTS) -> list[OutlinePart]:
    """Return the first `most` parts of a request, parents before their children."""
    found: list[OutlinePart] = []
    for path, one in _parts(expression):
        if len(found) == most:
            break
        operator, said = _said(one)
        found.append(OutlinePart(path, operator, one.name, said, one.span))
    return found


def _parts(expression: Expression) -> Iterator[tuple[str, Expression]]:
    pending: list[tuple[str, Expression]] = [("", expression)]
    while pending:
        path, here = pending.pop()
        yield path, here
        children = list(enumerate(children_of(here)))
        pending += [(f"{path}.{n}".lstrip("."), child) for n, child in reversed(children)]


def _said(part: Expression) -> tuple[str, str]:
    """Return the operator of a part and its description."""
    match part:
        case Atom():
            return "atom", _atom(part)
        case Void(bundle=bundle, maximum=maximum):
            return "void", f"up to {maximum:,} of <{bundle}>; nothing is promised"
        case AnyOf(options=options, prefer=prefer):
            worth = "" if prefer is None else f", worth {', '.join(f'{one:g}' for one in prefer)}"
            return "any", f"one of {len(options)}{worth}"
        case AllOf(children=children):
            return "all", f"each of {len(children)}, in any order"
        case Order(children=children, gap=gap):
            apart = "" if gap is None else f", {_apart(gap.minimum_ms, gap.maximum_ms)}"
            return "order", f"{len(children)}, one after the other{apart}"
        case Graph(children=children, edges=edges):
            arrows = f"{len(edges)} arrow{'s' * (len(edges) != 1)}"
            return "graph", f"{len(children)} parts, {arrows}"
        case Together(children=children, within=within):
            where = "" if within is None else f", all in {place_words(within, part.values)}"
            return "together", f"{len(children)}, which start and end at the same time{where}"
        case Window():
            return _window(part)
        case Every():
            return "every", _every(part)
        case _:
            assert_never(part)


def _atom(atom: Atom) -> str:
    wide = f"{atom.minimum:,}"
    if atom.maximum != atom.minimum:
        wide = f"{atom.minimum:,} to {atom.maximum:,}"
    parts = [f"{wide} of <{atom.bundle}>", f"each for {duration_text(atom.lease_ms)} or longer"]
    if atom.minimum == atom.maximum and atom.work_ms == atom.lease_ms * atom.maximum:
        parts[1] = f"all of them for {duration_text(atom.lease_ms)}"
    else:
        parts.append(f"{duration_text(atom.work_ms)} of work in all")
    if atom.multiple != 1:
        parts.append(f"{atom.multiple} at a time")
    if atom.on is not None:
        parts.append(f"on machines labelled {atom.on}")
    if atom.spread:
        parts.append(f"at most {atom.spread:,} in one {atom.domain or 'machine'}")
    if atom.within is not None:
        parts.append(f"all of them in {place_words(atom.within, atom.values)}")
    return ", ".join(parts)


def _apart(minimum_ms: int, maximum_ms: int | None) -> str:
    if maximum_ms is None:
        return f"{duration_text(minimum_ms)} or more between"
    if maximum_ms == minimum_ms:
        return f"{duration_text(minimum_ms)} between"
    return f"{duration_text(minimum_ms)} to {duration_text(maximum_ms)} between"


def _window(window: Window) -> tuple[str, str]:
    zone = "" if window.zone is None else f" ({window.zone})"
    until = _moment(window.end)
    if window.start is None:
        return "deadline", f"before {until}{zone}"
    return "window", f"from {_moment(window.start)} until {until}{zone}"


def _every(every: Every) -> str:
    parts = [months_text(every.months) if every.months else duration_text(every.period_ms)]
    if every.times is not None:
        parts.append(f"{every.times:,} times")
    elif every.until is not None:
        parts.append(f"until {_moment(every.until)}")
    elif every.is_endless:
        parts.append("without end")
    if every.months:
        parts.append(f"day {month_day_text(every.day or MonthDay(1))}")
    if every.days is not None:
        parts.append(f"on {', '.join(day_words(every.days))}")
    if every.dates:
        also = "" if every.has_only_dates else "also "
        parts.append(f"{also}on {len(every.dates):,} dates")
    if every.without:
        parts.append(f"not on {len(every.without):,} dates")
    if every.zone is not None:
        parts.append(f"by the calendar of {every.zone}")
    return ", ".join(parts)


def _moment(instant: Instant) -> str:
    match instant:
        case Offset(ms=ms):
            return duration_text(ms)
        case AfterSubmission(ms=ms):
            return f"+{duration_text(ms)}"
        case _:
            return instant_text(instant)
