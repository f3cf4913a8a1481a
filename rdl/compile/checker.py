"""Errors and oddities of an expression that do not depend on the plan, each with its position.

The parser and the JSON reader refuse most of this as they read; expressions that a program builds
are held to the same rules here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rdl.compile.civil_time import DAY_MS
from rdl.compile.parts import Finding, cycle_of
from rdl.compile.shapes import greatest_reachable, is_reachable, least_reachable
from rdl.durations import clock_text
from rdl.errors import MALFORMED
from rdl.expressions import (
    Absolute,
    AfterSubmission,
    AllOf,
    AnyOf,
    Atom,
    Every,
    Expression,
    Gap,
    Graph,
    Offset,
    Order,
    TimeOfDay,
    Together,
    Void,
    Window,
    children_of,
)
from rdl.limits import SourceLimits
from rdl.names import PartNames
from rdl.operators import MAX_DATES, MAX_MONTHS, MONTH_MS, WEEKDAYS
from rdl.resources import MAX_AMOUNT
from rdl.text.formatter import most_characters
from rdl.time_grid import duration_text, seconds_of

#: Largest number of bundles and largest time in ms: products stay inside 64 bits.
MAX_HEIGHT: Final = 2**31 - 1
MAX_MS: Final = 2**53

_SHOWN_CYCLE: Final = 8  # members; a cycle may have thousands

HOUR_MS: Final = 3_600_000
NO_CLOCK: Final = "no clock shows that time of day"

#: An expression on the way, its place (a chain to the root), its depth, whether inside `every`.
_Place = tuple["_Place | None", int]


@dataclass(frozen=True, slots=True)
class Findings:
    """The malformed parts of an expression, and those that may be mistakes.

    Attributes
    ----------
    troubles
        In written order.
    broken
        `id` of each malformed expression, whose numbers must not be used.
    complete
        False when the source is beyond a bound and was not read to its end.
    written
        Characters that the canonical text has at most.
    notes
        Well-formed and odd, one sentence each, in written order.
    calendars
        Whether it names calendars of the cluster.
    """

    troubles: tuple[Finding, ...]
    broken: frozenset[int]
    complete: bool
    written: int = 0
    notes: tuple[str, ...] = ()
    calendars: bool = False


def check(expression: Expression, limits: SourceLimits, *, exact_work: bool = False) -> Findings:
    """Return everything malformed in `expression`, without recursion, within the limits."""
    troubles: list[Finding] = []
    notes: list[str] = []
    names = PartNames(expression)
    atoms = written = 0
    calendars = False
    pending: list[tuple[Expression, _Place | None, int, bool]] = [(expression, None, 1, False)]
    while pending:
        here, place, depth, inside_every = pending.pop()
        if type(here) is Atom:
            wrong = _atom(here, exact_work=exact_work)
        else:
            wrong = _operator(here, limits, inside_every=inside_every)
        troubles.extend(_at(here, place, said) for said in wrong)
        if type(here) is AnyOf:
            notes.extend(_note_rise(here, names, place))
        children = children_of(here)
        written += most_characters(here)
        atoms += not children
        beyond = None
        if atoms > limits.max_atoms:
            beyond = (f"the request has more than {limits.max_atoms} atoms", "split it")
        elif depth > limits.max_depth:
            beyond = (f"operators are nested deeper than {limits.max_depth}", "nest fewer")
        if beyond is not None:
            return Findings((*troubles, _at(here, place, beyond)), frozenset(), complete=False)
        inside = inside_every
        if type(here) is Every:
            inside = True
            calendars = calendars or here.holidays is not None
        for index in range(len(children) - 1, -1, -1):
            pending.append((children[index], (place, index), depth + 1, inside))
    broken = frozenset(id(trouble.expression) for trouble in troubles)
    return Findings(
        tuple(troubles),
        broken,
        complete=True,
        written=written,
        notes=tuple(notes),
        calendars=calendars,
    )


_Said = tuple[str, str | None]


def _at(expression: Expression, place: _Place | None, said: _Said) -> Finding:
    return Finding(expression, _path(place), MALFORMED, said[0], said[1])


def _path(place: _Place | None) -> str:
    steps: list[str] = []
    while place is not None:
        steps.append(str(place[1]))
        place = place[0]
    return ".".join(reversed(steps))


def _atom(atom: Atom, *, exact_work: bool) -> Iterator[_Said]:
    g, h, multiple = atom.minimum, atom.maximum, atom.multiple
    if g < 1 or multiple < 1:
        yield "min and multiple must be at least 1", None
    elif h < g:
        yield f"min {g} is more than max {h}", f"write max={g} or more"
    elif h > MAX_HEIGHT:
        yield f"max {h} is not plausible", f"write at most {MAX_HEIGHT}"
    elif -(-g // multiple) > h // multiple:
        near = -(-g // multiple) * multiple
        message = f"no number of bundles from {g} to {h} is divisible by {multiple}"
        yield message, f"write max={near} or more"
    elif exact_work and atom.lease_ms > 0 and 0 < atom.work_ms <= MAX_MS:
        yield from _exact(atom)
    if not 0 <= atom.spread <= MAX_HEIGHT:
        yield f"spread must be from 1 to {MAX_HEIGHT}, or 0 for no limit, not {atom.spread}", None
    elif atom.domain is not None and not atom.spread:
        message = "the domain says in what bundles are spread, and there is no spread"
        yield message, "give a spread of 1 or more, or no domain"
    yield from _values(atom)
    if not len(atom.bundle):
        yield "the bundle is empty", "write at least one resource, such as <1 cpu>"
    for name, ms in (("lease", atom.lease_ms), ("work", atom.work_ms)):
        if ms < 1:
            yield f"the {name} must be positive", "a best-effort session is void(b, h)"
        elif ms > MAX_MS:
            unit = "seconds" if name == "lease" else "bundle-seconds"
            yield f"the {name} is not plausible", f"write at most {MAX_MS // 1000} {unit}"


def _exact(atom: Atom) -> Iterator[_Said]:
    """Ask for reachable work in whole seconds, or in ms where the client wrote finer numbers."""
    unit = 1 if atom.lease_ms % 1000 or atom.work_ms % 1000 else 1000
    shape = (atom.minimum, atom.maximum, atom.multiple, atom.lease_ms // unit)
    work = atom.work_ms // unit
    if is_reachable(*shape, work):
        return
    near = [greatest_reachable(*shape, work), least_reachable(*shape, work)]
    fix = " or ".join(f"{seconds_of(found * unit)}" for found in near if found is not None)
    message = f"no allocation has a work of exactly {seconds_of(atom.work_ms)} bundle-seconds"
    yield message, f"write work={fix}"


def _operator(here: Expression, limits: SourceLimits, *, inside_every: bool) -> Iterator[_Said]:
    match here:
        case Void():
            yield from _void(here)
        case AnyOf(options=options):
            yield from _any(here, limits.max_options)
            yield from _misplaced_child(options, "any")
        case AllOf(children=children):
            if not children:
                yield "all of nothing", "write at least one expression"
        case Order(children=children, gap=gap):
            if not children:
                yield "order of nothing", "write at least one expression"
            yield from _gap(gap)
            yield from _misplaced_child(children, "order")
        case Graph(children=children):
            yield from _graph(here)
            yield from _misplaced_child(children, "graph")
        case Together():
            yield from _together(here)
        case Window(of=of):
            yield from _window(here)
            yield from _misplaced_child((of,), "window")
        case Every(of=of):
            yield from _every(here, inside_every)
            yield from _misplaced_child((of,), "every")


def _together(together: Together) -> Iterator[_Said]:
    """Say why the children cannot start and end at the same time: each is a gang of one lease."""
    yield from _values(together)
    if not together.children:
        yield "together of nothing", "write at least one atom"
    atoms = [child for child in together.children if isinstance(child, Atom)]
    if len(atoms) < len(together.children):
        yield "together holds atoms only", "write window, every, any and all around it"
        return
    for index, atom in enumerate(atoms, 1):
        called = atom.name or f"atom {index}"
        if together.within is not None and atom.within is not None:
            message = f"{called} has within={atom.within} in a together with within"
            yield message, "write within once: of the together, or of its atoms"
        if atom.minimum != atom.maximum:
            message = f"{called} holds {atom.minimum} to {atom.maximum} bundles; in together each"
            fix = "write max as min, or any(together(...), together(...)) with a size each"
            yield f"{message} atom has one size", fix
        elif atom.work_ms != atom.minimum * atom.lease_ms:
            message = f"{called} does not run for exactly one lease, as each atom of together does"
            yield message, f"write work={seconds_of(atom.minimum * atom.lease_ms)}"
        elif atom.credit:
            message = f"{called} has credit=yes; a together releases nothing before its end"
            yield message, "leave credit out"
        elif atom.lease_ms != atoms[0].lease_ms:
            first = duration_text(atoms[0].lease_ms)
            message = (
                f"{called} runs for {duration_text(atom.lease_ms)}, the first atom for {first}"
            )
            yield message, f"write lease={first}: what is together starts and ends together"
    total: dict[str, int] = {}
    for atom in atoms:
        for name, amount in atom.bundle.items_:
            total[name] = total.get(name, 0) + amount * atom.minimum
    most = max(total.values(), default=0)
    if most > MAX_AMOUNT:
        yield f"its bundles take {most} of one resource together", f"write at most {MAX_AMOUNT}"


def _values(part: Atom | Together) -> Iterator[_Said]:
    if not 1 <= part.values <= MAX_HEIGHT:
        yield f"values must be from 1 to {MAX_HEIGHT}, not {part.values}", None
    elif part.values != 1 and part.within is None:
        yield "values says of how many, and there is no within", "name a domain, or no values"


def _void(void: Void) -> Iterator[_Said]:
    if not 1 <= void.maximum <= MAX_HEIGHT:
        yield f"max must be from 1 to {MAX_HEIGHT}, not {void.maximum}", None
    if not len(void.bundle):
        yield "the bundle is empty", "write at least one resource, such as <1 cpu>"


def is_void(expression: Expression) -> bool:
    """Return whether an expression requests nothing: a void, or an `all` of voids."""
    pending = [expression]
    while pending:
        here = pending.pop()
        if isinstance(here, AllOf) and here.children:
            pending.extend(here.children)
        elif not isinstance(here, Void):
            return False
    return True


def _misplaced_child(children: tuple[Expression, ...], operator: str) -> Iterator[_Said]:
    if any(not isinstance(child, Atom) and is_void(child) for child in children):
        message = f"a void cannot stand in {operator}: nothing is guaranteed to it"
        yield message, "write it as the whole request, or inside all"


def _any(choice: AnyOf, most: int) -> Iterator[_Said]:
    count = len(choice.options)
    if not count:
        yield "any of nothing", "write at least one option"
    elif count > most:
        yield f"any has {count} options", f"write at most {most}"
    if choice.prefer is not None:
        if len(choice.prefer) != count:
            yield f"prefer has {len(choice.prefer)} values for {count} options", "write one each"
        if not all(0 < worth <= 1 for worth in choice.prefer):
            yield "each value of prefer lies in (0, 1]", None


def _note_rise(choice: AnyOf, names: PartNames, place: _Place | None) -> Iterator[str]:
    """Note a later option that is worth more than one written before it."""
    worths = choice.prefer or ()
    for index, (before, after) in enumerate(pairwise(worths)):
        if after > before:
            called = None if place is None else names.at(_path(place))
            where = "" if called is None else f"{called}: "
            yield (
                f"{where}prefer rises from {before:g} to {after:g}: option {index + 1} is "
                f"preferred to option {index}, though it is written after it"
            )
            return


def _gap(gap: Gap | None) -> Iterator[_Said]:
    if gap is None:
        return
    if not 0 <= gap.minimum_ms <= MAX_MS:
        yield "a gap cannot be negative", None
    elif gap.maximum_ms is not None and gap.maximum_ms < gap.minimum_ms:
        low, high = duration_text(gap.minimum_ms), duration_text(max(0, gap.maximum_ms))
        yield f"the gap {low}..{high} is empty", f"write {high}..{low}"


def _graph(graph: Graph) -> Iterator[_Said]:
    count = len(graph.children)
    if not count:
        yield "graph of nothing", "write at least one expression"
    if len(graph.names) != count or len(set(graph.names)) != count:
        yield "each expression of a graph has a name of its own", None
    for edge in graph.edges:
        yield from _gap(edge.gap)
    inside = [e for e in graph.edges if 0 <= e.before < count and 0 <= e.after < count]
    if len(inside) < len(graph.edges):
        yield "an arrow joins two expressions of its graph", None
        return
    cycle = cycle_of(count, [(edge.before, edge.after) for edge in inside])
    if cycle:
        names = [graph.names[i] if i < len(graph.names) else str(i) for i in cycle]
        if len(names) > _SHOWN_CYCLE:
            left_out = len(names) - _SHOWN_CYCLE
            names[_SHOWN_CYCLE - 1 : -1] = [f"({left_out} more)"]
        yield f"the graph has a cycle: {' -> '.join(names)}", "remove one of its arrows"


def _window(window: Window) -> Iterator[_Said]:
    start, end = window.start, window.end
    for instant in (start, end):
        if isinstance(instant, TimeOfDay):
            if not 0 <= instant.ms <= DAY_MS:
                yield NO_CLOCK, "write a time from 00:00 to 24:00"
        elif isinstance(instant, Offset | AfterSubmission) and abs(instant.ms) > MAX_MS:
            yield "the time is not plausible", f"write at most {MAX_MS // 1000} seconds"
    order = 1  # the sign of its length; of times of two kinds it is not known yet
    match start, end:
        case (Absolute(at=first), Absolute(at=last)):
            order = (last > first) - (last < first)
        case (Offset(ms=low), Offset(ms=high)) | (
            AfterSubmission(ms=low),
            AfterSubmission(ms=high),
        ):
            order = (high > low) - (high < low)
    if order < 1:
        said = "ends before it starts" if order < 0 else "ends where it starts: no length"
        yield f"the window {said}", "write an end after its start"
    if window.zone is not None:
        yield from _known_zone(window.zone)


def _every(every: Every, inside_every: bool) -> Iterator[_Said]:
    if not 1 <= every.period_ms <= MAX_MS:
        yield "the period must be positive", "write a duration such as 24h"
    if every.times is not None and every.until is not None:
        yield "times and until say the same", "keep one of them"
    if every.times is not None and every.times < 1:
        yield "times must be at least 1", None
    if every.is_endless and inside_every:
        yield "an endless every inside an every never ends in its period", "write times= or until="
    yield from _days(every)
    yield from _months(every)
    if every.zone is not None:
        yield from _known_zone(every.zone)
        if every.period_ms % DAY_MS:
            yield "a period in a zone is a whole number of days", "write 1d, 7d, ..."
        yield from _midnight(every)


def _known_zone(zone: str) -> Iterator[_Said]:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield f"{zone!r} is not a time zone that is known here", "write one such as Europe/Paris"


def _days(every: Every) -> Iterator[_Said]:
    """Report impossible calendar rules of a recurrence."""
    if isinstance(every.until, TimeOfDay):
        yield "until is a date, not a time of day", "write an RFC 3339 instant"
    by_calendar = {
        "days": every.days is not None,
        "dates": bool(every.dates),
        "a period of months": every.months > 0,
        "except": bool(every.without),
        "holidays": every.holidays is not None,
        "an anchor by time of day": isinstance(every.anchor, TimeOfDay),
    }
    said = [word for word, holds in by_calendar.items() if holds]
    if said and every.zone is None:
        yield f"{said[0]} needs a zone: days begin there", 'write zone="Europe/Paris"'
    if said and said[0] in ("days", "dates") and (every.months or every.period_ms != DAY_MS):
        what = "days of the week" if said[0] == "days" else "dates"
        yield f"{what} need a period of one day", "write every(1d, ...)"
    if every.days is not None:
        known = all(0 <= day < len(WEEKDAYS) for day in every.days)
        if not every.days or not known or list(every.days) != sorted(set(every.days)):
            yield "days are numbers from 0 (Monday) to 6, ascending", "leave it out for all"
    if list(every.without) != sorted(set(every.without)) or len(every.without) > MAX_DATES:
        yield "the dates that do not count are ascending", f"write at most {MAX_DATES}, each once"
    if list(every.dates) != sorted(set(every.dates)) or len(every.dates) > MAX_DATES:
        yield "the dates that count are ascending", f"write at most {MAX_DATES}, each once"
    if isinstance(every.anchor, TimeOfDay) and not 0 <= every.anchor.ms < DAY_MS:
        yield NO_CLOCK, "write a time from 00:00 to 23:59"


def _months(every: Every) -> Iterator[_Said]:
    """Report impossible periods of months."""
    if not every.months:
        if every.day is not None:
            yield "a day of the month needs a period of months", "write every(1mo, ..., day=last)"
        return
    if not 1 <= every.months <= MAX_MONTHS or every.period_ms != MONTH_MS * every.months:
        yield f"a period of months is 1 to {MAX_MONTHS} of them, each of 30 days in size", None
    if every.is_endless:
        yield "a recurrence by months needs an end", "write times= or until="
    if every.months > 1 and (every.anchor is None or isinstance(every.anchor, TimeOfDay)):
        fix = "write an anchor= with a date, such as anchor=2027-03-01T00:00:00Z"
        yield "a period of several months needs the month that it counts from", fix
    if every.day is not None:
        number, weekday = every.day
        known = number in (range(1, 32) if weekday is None else range(1, 5)) or number == -1
        if not known or (weekday is not None and not 0 <= weekday < len(WEEKDAYS)):
            yield "no month has such a day", "write 1 to 31, last, first mon, last fri"


def _midnight(every: Every) -> Iterator[_Said]:
    """Find windows by times of day that pass the end of their day."""
    if every.period_ms != DAY_MS:
        return
    begins = _day_begins(every)
    if begins is None:
        return
    for start, end in dict.fromkeys(_nights(every.of, begins)):
        night = f"from {clock_text(start)} to {clock_text(end)}"
        fix = f"write anchor={clock_text(_between(end, start))}, and each period begins then"
        yield f"{night} it passes {clock_text(begins)}, where one day ends and the next begins", fix


def _day_begins(every: Every) -> int | None:
    """Return the time of day at which periods begin; None if only a plan can say it."""
    match every.anchor:
        case None:
            return 0
        case TimeOfDay(ms=ms):
            return ms
        case Absolute(at=at):
            try:
                shown = at.astimezone(ZoneInfo(every.zone or "UTC"))
            except (ZoneInfoNotFoundError, ValueError, OSError, OverflowError):
                return None
            midnight = datetime.combine(shown.date(), time())
            return (shown.replace(tzinfo=None) - midnight) // timedelta(milliseconds=1)
        case _:
            return None


def _nights(inside: Expression, begins: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of windows in the days of a recurrence that pass where they begin."""
    pending = [inside]
    while pending:
        here = pending.pop()
        if isinstance(here, Every) or (isinstance(here, Window) and here.zone is not None):
            continue  # what is below has days of its own
        pending.extend(reversed(children_of(here)))
        if not isinstance(here, Window):
            continue
        if isinstance(here.start, TimeOfDay) and isinstance(here.end, TimeOfDay):
            start, end = here.start.ms, here.end.ms
            if (start - begins) % DAY_MS >= ((end - begins) % DAY_MS or DAY_MS):
                yield start, end


def _between(end_ms: int, start_ms: int) -> int:
    """Return a time of day, a full hour if there is one, from an end to the next start."""
    free = (start_ms - end_ms) % DAY_MS
    middle = (end_ms + free // 2) % DAY_MS
    hour = middle // HOUR_MS * HOUR_MS
    return hour if (hour - end_ms) % DAY_MS <= free else middle
