"""Named calendars: the compiler writes their dates into the request.

So requests in a Plan do not change with the cluster's calendars, and neither the oracle nor the
validator needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta

from rdl.compile.context import CompileContext
from rdl.compile.parts import Finding
from rdl.errors import MALFORMED, did_you_mean, quote
from rdl.expressions import (
    AllOf,
    AnyOf,
    Every,
    Expression,
    Graph,
    Order,
    Together,
    Window,
)

#: Time before the submission for which dates are kept: a period may have started then.
_BEFORE = timedelta(days=8)


def with_dates(
    expression: Expression, context: CompileContext
) -> tuple[Expression, tuple[Finding, ...]]:
    """Return the request with dates instead of calendars, and problems of calendar names.

    Leaves out dates before the submission.
    """
    writer = _Writer(context)
    return writer.written(expression, ""), tuple(writer.unknown)


class _Writer:
    def __init__(self, context: CompileContext) -> None:
        self.unknown: list[Finding] = []
        self._calendars: Mapping[str, tuple[date, ...]] = dict(context.calendars)
        self._first = date.min
        origin = context.grid.origin
        if origin is not None:
            submitted = origin + timedelta(milliseconds=max(0, context.submitted_ms))
            self._first = submitted.date() - _BEFORE

    def written(self, here: Expression, path: str) -> Expression:
        match here:
            case AnyOf(options=options):
                return replace(here, options=self._each(options, path))
            case AllOf() | Order() | Graph() | Together():
                return replace(here, children=self._each(here.children, path))
            case Window(of=of):
                return replace(here, of=self.written(of, _child(path, 0)))
            case Every(of=of):
                return self._dated(replace(here, of=self.written(of, _child(path, 0))), path)
            case _:
                return here

    def _each(self, children: tuple[Expression, ...], path: str) -> tuple[Expression, ...]:
        return tuple(self.written(one, _child(path, i)) for i, one in enumerate(children))

    def _dated(self, every: Every, path: str) -> Every:
        if every.holidays is None:
            return every
        dates = self._calendars.get(every.holidays)
        if dates is None:
            message = f"the cluster has no calendar {quote(every.holidays)}"
            fix = "name it under [calendars] of the cluster file"
            if self._calendars:
                fix = did_you_mean(every.holidays, self._calendars)
            self.unknown.append(Finding(every, path, MALFORMED, message, fix))
            return every
        kept = {day for day in dates if day >= self._first}
        return replace(every, holidays=None, without=tuple(sorted(kept.union(every.without))))


def _child(path: str, index: int) -> str:
    return f"{path}.{index}" if path else str(index)
