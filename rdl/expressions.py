"""RDL expressions as frozen trees, with the client's own numbers.

Times and work are kept in milliseconds (work in bundle-milliseconds), exactly as written; only
`TimeGrid` turns them into steps. `span` is the position of the expression in its source text,
`name` its name there; neither counts in comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import NamedTuple, TypeAlias

from rdl.resources import Resources

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Offset:
    """An instant in ms from the origin; inside `Every`, from the start of the period."""

    ms: int


@dataclass(frozen=True, slots=True)
class AfterSubmission:
    """An instant in ms from the request's own submission (``+2h``)."""

    ms: int


@dataclass(frozen=True, slots=True)
class Absolute:
    """An RFC 3339 instant; the datetime is aware."""

    at: datetime


@dataclass(frozen=True, slots=True)
class TimeOfDay:
    """A time on the clock of a zone, in ms from midnight (``06:00``); 24 hours are the day's end.

    As the start of a window it is the first at or after the start of the period around it, else the
    submission; as its end the first after that. As an anchor it is the last at or before.
    """

    ms: int


#: An instant that needs no window to be one.
Moment: TypeAlias = Offset | AfterSubmission | Absolute
Instant: TypeAlias = Moment | TimeOfDay


@dataclass(frozen=True, slots=True)
class Gap:
    """Time from the end of one expression to the start of the next, in ms; no maximum is None."""

    minimum_ms: int = 0
    maximum_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Atom:
    """``atom(b, g, h, l, w)`` (Rayon 3.1).

    Attributes
    ----------
    minimum, maximum
        g and h: the number of bundles at any time is 0 or between them.
    lease_ms
        l: every bundle taken is kept at least so long.
    work_ms
        w: the sum of all allocations, in bundle-ms.
    multiple
        k: every allocation is divisible by it.
    on
        Only machines that carry this label.
    spread
        Maximum number of bundles on one machine at the same time; 0: no limit.
    domain
        With `spread`: at most this many in one value of this domain, such as one ``rack``. Machines
        that have no value of it hold none. None = on one machine.
    handover
        May a bundle change machine between leases? None = yes for g < h, no for a gang.
    credit
        Does work that ran early make its latest leases unnecessary? None = as for `handover`.
    within
        All bundles of one allocation on machines of one value of this domain, such as one ``rack``,
        whichever; None = of any.
    values
        With `within`: of at most so many values.
    """

    bundle: Resources
    minimum: int
    maximum: int
    lease_ms: int
    work_ms: int
    multiple: int = 1
    on: str | None = None
    spread: int = 0
    domain: str | None = None
    handover: bool | None = None
    credit: bool | None = None
    within: str | None = None
    values: int = 1
    span: Span | None = field(default=None, compare=False)
    name: str | None = field(default=None, compare=False)

    @property
    def hands_over(self) -> bool:
        """Whether a bundle may change machine between leases, said or by default."""
        return self.is_malleable if self.handover is None else self.handover

    @property
    def is_credited(self) -> bool:
        """Whether work that ran early gives its latest leases back, said or by default."""
        return self.is_malleable if self.credit is None else self.credit

    @property
    def is_malleable(self) -> bool:
        """Whether its number of bundles may vary: it is not a gang."""
        return self.minimum < self.maximum

    @property
    def odd_answers(self) -> dict[str, bool]:
        """`handover` and `credit` by name, where one is said and is not the default."""
        said = {"handover": self.handover, "credit": self.credit}
        return {
            name: answer
            for name, answer in said.items()
            if answer is not None and answer != self.is_malleable
        }

    def canonical(self) -> Atom:
        """Return the same atom without answers that are the default anyway."""
        odd = self.odd_answers
        return replace(self, handover=odd.get("handover"), credit=odd.get("credit"))


@dataclass(frozen=True, slots=True)
class Void:
    """A best-effort session (Rayon 3.1, w = 0): trivially satisfied, nothing guaranteed."""

    bundle: Resources
    maximum: int
    span: Span | None = field(default=None, compare=False)
    name: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Exactly one option is allocated and satisfied; `prefer` is the worth of each in (0, 1]."""

    options: tuple[Expression, ...]
    prefer: tuple[float, ...] | None = None
    span: Span | None = field(default=None, compare=False)
    name: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every child is satisfied."""

    children: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False)
    name: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Order:
    """Every child is satisfied, each wholly before the next; `gap` is between neighbours."""

    children: tuple[Expression, ...]
    gap: Gap | None = None
    span: Span | None = field(default=None, compare=False)
    name: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Edge:
    """An arrow of a graph: child `before` ends before child `after` starts (child indices)."""

    before: int
    after: int
    gap: Gap | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """Every child is satisfied and each arrow is an order; names are unique, order as written."""

    names: tuple[str, ...]
    children: tuple[Expression, ...]
    edges: tuple[Edge, ...]
    span: Span | None = field(default=None, compare=False)
    name: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Window:
    """`of` is satisfied with all its steps in [start, end).

    Attributes
    ----------
    start
        None bounds nothing: ``deadline(e, end)``.
    zone
        IANA name for times of day; None is that of the `Every` around it.
    """

    start: Instant | None
    end: Instant
    of: Expression
    zone: str | None = None
    span: Span | None = field(default=None, compare=False)
    name: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Months:
    """A period of whole months of the calendar, from 1."""

    count: int


class MonthDay(NamedTuple):
    """A day of every month: ``31``, ``last``, ``first mon``, ``last fri``.

    Attributes
    ----------
    number
        From 1: the day of the month, or the first, second, ... of its days with that weekday; the
        last one where the month has fewer. -1: the last.
    weekday
        0 = Monday; None counts all days.
    """

    number: int
    weekday: int | None = None


@dataclass(frozen=True, slots=True)
class Every:
    """`of` once in each period.

    Attributes
    ----------
    times, until
        How often, or until when; neither is endless. Not both.
    anchor
        Start of period 0; None is the start of the enclosing window, else the submission. With a
        time of day, periods begin at it.
    zone
        IANA name; the period is then whole days and period k a civil day there.
    same_offset
        True: occurrence k is occurrence 0 shifted by the distance between the starts of their
        periods. False: each occurrence is free in its period.
    days
        Weekdays, 0 = Monday, ascending: only days that begin on one of them count. None is all.
    without
        Dates that do not count, ascending.
    holidays
        Name of a calendar of the cluster whose dates do not count; the compiler puts them into
        `without` (`rdl.compile.compiler`).
    dates
        Dates that count apart from `days`, ascending; without `days` only they count.
    months
        The period in months of the calendar, each begun by `day`; `period_ms` is then this many
        times 30 days, and no more than a size. 0: the period is `period_ms`.
    day
        With which day of a month a period of months begins; None is its first.
    """

    period_ms: int
    of: Expression
    times: int | None = None
    until: Instant | None = None
    anchor: Instant | None = None
    zone: str | None = None
    same_offset: bool = True
    days: tuple[int, ...] | None = None
    without: tuple[date, ...] = ()
    holidays: str | None = None
    dates: tuple[date, ...] = ()
    months: int = 0
    day: MonthDay | None = None
    span: Span | None = field(default=None, compare=False)
    name: str | None = field(default=None, compare=False)

    @property
    def is_endless(self) -> bool:
        """Whether it continues until it is cancelled."""
        return self.times is None and self.until is None and not self.has_only_dates

    @property
    def has_only_dates(self) -> bool:
        """Whether only `dates` determine its times."""
        return bool(self.dates) and self.days is None

    @property
    def is_by_days(self) -> bool:
        """Whether days or dates of a calendar are named, so that not every period counts alike."""
        return self.days is not None or bool(self.dates) or self.months > 0


@dataclass(frozen=True, slots=True)
class Together:
    """Atoms that start and end at the same time, each with its own bundle and count.

    Each is a gang that runs for one lease, and all leases are equal (`rdl.compile.checker`).

    Attributes
    ----------
    within, values
        As of `Atom`, for the bundles of all of them.
    """

    children: tuple[Expression, ...]
    within: str | None = None
    values: int = 1
    span: Span | None = field(default=None, compare=False)
    name: str | None = field(default=None, compare=False)


Expression: TypeAlias = Atom | Void | AnyOf | AllOf | Order | Graph | Together | Window | Every


def children_of(expression: Expression) -> tuple[Expression, ...]:
    """Return the children in the order that paths count them (`window` and `every` have one)."""
    match expression:
        case AnyOf(options=options):
            return options
        case AllOf() | Order() | Graph() | Together():
            return expression.children
        case Window(of=of) | Every(of=of):
            return (of,)
        case _:
            return ()


def atoms_of(expression: Expression) -> Iterator[Atom]:
    """Yield the atoms in the order that paths count them."""
    if isinstance(expression, Atom):
        yield expression
    for child in children_of(expression):
        yield from atoms_of(child)


def members_of(together: Together) -> tuple[Atom, ...]:
    """Return the atoms of a `together`, each with the `within` of all of them, if it has one."""
    atoms = [child for child in together.children if isinstance(child, Atom)]
    if together.within is None:
        return tuple(atoms)
    place = together.within, together.values
    return tuple(replace(atom, within=place[0], values=place[1]) for atom in atoms)


def map_atoms(
    expression: Expression,
    change: Callable[[Atom], Atom],
    change_together: Callable[[Together], Expression] | None = None,
) -> Expression:
    """Return the expression with `change` made to each atom; all else stays.

    Parameters
    ----------
    change_together
        Made to each `together` instead of to its atoms.
    """

    def changed(child: Expression) -> Expression:
        return map_atoms(child, change, change_together)

    match expression:
        case Atom():
            return change(expression)
        case Together() if change_together is not None:
            return change_together(expression)
        case Window(of=of) | Every(of=of):
            return replace(expression, of=changed(of))
        case AnyOf(options=options):
            return replace(expression, options=tuple(map(changed, options)))
        case AllOf() | Order() | Graph() | Together():
            return replace(expression, children=tuple(map(changed, expression.children)))
        case Void():
            return expression


def atom_at(expression: Expression, path: str) -> Atom | None:
    """Return the atom at a source path with occurrences (``0@3.1``), or None.

    A member of a `together` has the `within` of all of them, if it has one.
    """
    at = expression_at(expression, path)
    above = expression_at(expression, path.rpartition(".")[0]) if path else None
    if isinstance(above, Together) and isinstance(at, Atom) and above.within is not None:
        at = replace(at, within=above.within, values=above.values)
    return at if isinstance(at, Atom) else None


def expression_at(expression: Expression, path: str) -> Expression | None:
    """Return the part at a source path with occurrences, or None."""
    at = expression
    for part in path.split(".") if path else []:
        index, mark, occurrence = part.partition("@")
        children = children_of(at)
        recurs = isinstance(at, Every)
        if recurs != bool(mark) or not _is_number(index) or (recurs and not _is_number(occurrence)):
            return None
        if int(index) >= len(children):
            return None
        at = children[int(index)]
    return at


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
