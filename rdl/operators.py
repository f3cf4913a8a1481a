"""The operators and their arguments, once for RDL as text and as JSON."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from enum import StrEnum, auto
from functools import cache
from typing import Any, Final
from zoneinfo import ZoneInfo, available_timezones

from rdl.durations import MAX_WORK_MS
from rdl.errors import nearest, quote
from rdl.expressions import (
    AllOf,
    AnyOf,
    Atom,
    Every,
    Expression,
    Gap,
    MonthDay,
    Months,
    Order,
    Span,
    TimeOfDay,
    Together,
    Void,
    Window,
)
from rdl.read_error import ReadError
from rdl.resources import MEMORY_UNITS, Resources

#: The largest count of bundles or times; bundles times steps stay far inside 64 bits.
MAX_COUNT: Final = 10**9
#: Different resources in one bundle.
MAX_RESOURCES: Final = 64
#: Words that stand between a number and its resource.
UNITS: Final = frozenset(MEMORY_UNITS) | {"m"}
#: Dates that do not count, in one `every`.
MAX_DATES: Final = 4000
#: The most months of a period, and the size of one in ms.
MAX_MONTHS: Final = 1200
MONTH_MS: Final = 30 * 86_400_000
#: Which of its weekdays a day of a month is.
ORDINALS: Final[dict[str, int]] = {"first": 1, "second": 2, "third": 3, "fourth": 4, "last": -1}
WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
#: Characters of a name.
LONGEST_NAME: Final = 200
_MONTHS = re.compile(r"([0-9]{1,4})(mo|y)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_ZONE_NAME = re.compile(r"[A-Za-z0-9_+\-]+(?:/[A-Za-z0-9_+\-]+){0,3}")


class Reads(StrEnum):
    """The type of an argument."""

    BUNDLE = auto()
    COUNT = auto()
    DURATION = auto()
    WORK = auto()
    LABEL = auto()
    DOMAIN = auto()
    INSTANT = auto()
    ZONE = auto()
    FLAG = auto()
    ANSWER = auto()
    GAP = auto()
    WEIGHTS = auto()
    EXPRESSION = auto()
    PERIOD = auto()
    MONTH_DAY = auto()
    DAYS = auto()
    DATES = auto()
    CALENDAR = auto()


#: Arguments of each operator in the order of their positions; the names are the keywords of the
#: text and the keys of the JSON. `graph` has a form of its own.
ARGUMENTS: Final[dict[str, dict[str, Reads]]] = {
    "atom": {
        "bundle": Reads.BUNDLE,
        "min": Reads.COUNT,
        "max": Reads.COUNT,
        "lease": Reads.DURATION,
        "work": Reads.WORK,
        "multiple": Reads.COUNT,
        "on": Reads.LABEL,
        "spread": Reads.COUNT,
        "by": Reads.DOMAIN,
        "within": Reads.DOMAIN,
        "values": Reads.COUNT,
        "handover": Reads.ANSWER,
        "credit": Reads.ANSWER,
        "tasks": Reads.COUNT,
        "each": Reads.DURATION,
    },
    "any": {"prefer": Reads.WEIGHTS},
    "all": {},
    "order": {"gap": Reads.GAP},
    "graph": {},
    "together": {"within": Reads.DOMAIN, "values": Reads.COUNT},
    "window": {
        "of": Reads.EXPRESSION,
        "start": Reads.INSTANT,
        "end": Reads.INSTANT,
        "zone": Reads.ZONE,
    },
    "deadline": {"of": Reads.EXPRESSION, "end": Reads.INSTANT, "zone": Reads.ZONE},
    "every": {
        "period": Reads.PERIOD,
        "of": Reads.EXPRESSION,
        "times": Reads.COUNT,
        "until": Reads.INSTANT,
        "anchor": Reads.INSTANT,
        "zone": Reads.ZONE,
        "same_offset": Reads.FLAG,
        "days": Reads.DAYS,
        "except": Reads.DATES,
        "holidays": Reads.CALENDAR,
        "dates": Reads.DATES,
        "day": Reads.MONTH_DAY,
    },
    "void": {"bundle": Reads.BUNDLE, "max": Reads.COUNT},
}

#: The arguments that must be there, which are also those that may go without a name.
REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "atom": ("bundle", "min", "max", "lease", "work"),
    "any": (),
    "all": (),
    "order": (),
    "graph": (),
    "together": (),
    "window": ("of", "start", "end"),
    "deadline": ("of", "end"),
    "every": ("period", "of"),
    "void": ("bundle", "max"),
}

#: What say lease and work together: `tasks` leases of `each`.
TASKS: Final = ("tasks", "each")

#: Operators that take any number of expressions.
VARIADIC: Final = frozenset({"any", "all", "order", "together"})


class ArgumentError(ReadError):
    """An impossible argument, by itself or in combination with the others.

    Attributes
    ----------
    argument
        The invalid argument if several were checked, else None.
    """

    def __init__(self, message: str, fix: str | None = None, argument: str | None = None) -> None:
        self.argument = argument
        super().__init__(message, fix)


def build(
    operator: str, arguments: dict[str, Any], children: list[Expression], span: Span | None
) -> Expression:
    """Return the expression of an operator (all but `graph`) from arguments already read.

    Parameters
    ----------
    arguments
        The required ones and any others, each of the type its `Reads` says.
    children
        The expressions of a variadic operator.

    Raises
    ------
    ArgumentError
        If arguments contradict each other.
    """
    match operator:
        case "atom":
            return _atom(arguments, span)
        case "any":
            prefer = arguments.get("prefer")
            if prefer is not None and len(prefer) != len(children):
                message = f"prefer has {len(prefer)} values for {len(children)} options"
                raise ArgumentError(message, "write one in (0, 1] for each option", "prefer")
            return AnyOf(tuple(children), prefer or None, span)
        case "all":
            return AllOf(tuple(children), span)
        case "order":
            return Order(tuple(children), arguments.get("gap"), span)
        case "together":
            return Together(tuple(children), *_place(arguments), span)
        case "window":
            return Window(
                arguments["start"], arguments["end"], arguments["of"], arguments.get("zone"), span
            )
        case "deadline":
            return Window(None, arguments["end"], arguments["of"], arguments.get("zone"), span)
        case "every":
            return _every(arguments, span)
        case _:
            return Void(arguments["bundle"], arguments["max"], span)


def _atom(arguments: dict[str, Any], span: Span | None) -> Atom | Void:
    if arguments.get("work") == 0 and not arguments.keys() - set(REQUIRED["atom"]):
        return Void(arguments["bundle"], arguments["max"], span)  # as Rayon 3.1 writes it
    if "by" in arguments and "spread" not in arguments:
        message = "by says in what bundles are spread, and there is no spread"
        raise ArgumentError(message, "write spread=1 too, or leave by out", "by")
    tasks = arguments.get("tasks")
    lease = arguments["lease"] if tasks is None else arguments["each"]
    atom = Atom(
        arguments["bundle"],
        arguments.get("min", 1),
        arguments["max"] if tasks is None else arguments.get("max", tasks),
        lease,
        arguments["work"] if tasks is None else _work_of(tasks, lease),
        arguments.get("multiple", 1),
        arguments.get("on"),
        arguments.get("spread", 0),
        arguments.get("by"),
        arguments.get("handover"),
        arguments.get("credit"),
        *_place(arguments),
        span,
    )
    # So equal requests are equal expressions.
    return atom if atom.handover is None and atom.credit is None else atom.canonical()


def _place(arguments: Mapping[str, Any]) -> tuple[str | None, int]:
    """Return `within` and `values`."""
    if "values" in arguments and "within" not in arguments:
        message = "values says of how many, and there is no within"
        raise ArgumentError(message, "write within=rack too, or leave values out", "values")
    return arguments.get("within"), arguments.get("values", 1)


def _work_of(tasks: int, each_ms: int) -> int:
    if tasks * each_ms > MAX_WORK_MS:
        raise ArgumentError("tasks times each is too much work", "write fewer or shorter", "tasks")
    return tasks * each_ms


def _every(arguments: dict[str, Any], span: Span | None) -> Every:
    if "times" in arguments and "until" in arguments:
        message = "every has both times and until"
        raise ArgumentError(message, "keep the one that is meant", "until")
    period = arguments["period"]
    months = period.count if isinstance(period, Months) else 0
    if period == 0:
        raise ArgumentError("a period of zero", "write a duration such as 24h", "period")
    if isinstance(arguments.get("until"), TimeOfDay):
        message = "until is a date, not a time of day"
        raise ArgumentError(message, "write such as until=2026-02-01T00:00:00+01:00", "until")
    return Every(
        MONTH_MS * months or period,
        arguments["of"],
        arguments.get("times"),
        arguments.get("until"),
        arguments.get("anchor"),
        arguments.get("zone"),
        arguments.get("same_offset", True),
        arguments.get("days"),
        arguments.get("except", ()),
        arguments.get("holidays"),
        arguments.get("dates", ()),
        months,
        arguments.get("day"),
        span,
    )


def build_gap(minimum_ms: int, maximum_ms: int | None) -> Gap:
    """Return a gap.

    Raises
    ------
    ArgumentError
        If its maximum is below its minimum.
    """
    if maximum_ms is not None and maximum_ms < minimum_ms:
        raise ArgumentError("the longest gap is shorter than the shortest", "write 5m..1h")
    return Gap(minimum_ms, maximum_ms)


def check_count(value: int) -> int:
    """Return a count if it is within 1 .. MAX_COUNT, else raise ArgumentError."""
    if value < 1:
        raise ArgumentError("a count is at least 1", "write a whole number from 1")
    if value > MAX_COUNT:
        raise ArgumentError("the count is too large", f"write at most {MAX_COUNT}")
    return value


def check_weight(value: float) -> float:
    """Return the worth of an option if it is within (0, 1], else raise ArgumentError."""
    if not 0 < value <= 1:
        raise ArgumentError("the worth of an option is above 0 and at most 1", "write 0.5")
    return value


def check_name(value: str, what: str) -> str:
    """Return the name of a label or of a graph's child if it can be recorded and read back.

    Raises
    ------
    ArgumentError
        If it is empty, too long, or has characters that do not print.
    """
    if value and value.isprintable() and len(value) <= LONGEST_NAME:
        return value
    raise ArgumentError(
        f"{quote(value)} is not {what}", f"write 1 to {LONGEST_NAME} printable characters"
    )


def days_of(words: Sequence[str]) -> tuple[int, ...]:
    """Return weekdays, 0 = Monday, ascending, from ``mon``, ``mon..fri`` and ``fri..mon``.

    Raises
    ------
    ArgumentError
        For a word that names none, and for no words.
    """
    found: set[int] = set()
    for word in words:
        first, dots, last = word.partition("..")
        low, high = _weekday(first), _weekday(last if dots else first)
        found |= {day % 7 for day in range(low, high + 1 if low <= high else high + 8)}
    if not found:
        raise ArgumentError("no day is named", "write such as [mon..fri]")
    return tuple(sorted(found))


def _weekday(word: str) -> int:
    if word in WEEKDAYS:
        return WEEKDAYS.index(word)
    raise ArgumentError(f"{quote(word)} is no day of the week", f"write {', '.join(WEEKDAYS)}")


def months_of(text: str) -> Months | None:
    """Return ``1mo``, ``3mo`` or ``1y`` as months; None if it is not so written.

    Raises
    ------
    ArgumentError
        For none, and for more than MAX_MONTHS.
    """
    found = _MONTHS.fullmatch(text)
    if found is None:
        return None
    count = int(found[1]) * (12 if found[2] == "y" else 1)
    if not 1 <= count <= MAX_MONTHS:
        raise ArgumentError(f"{quote(text)} is not plausible", f"write 1mo to {MAX_MONTHS}mo")
    return Months(count)


def months_text(months: int) -> str:
    """Return a period of months as `months_of` reads it."""
    return f"{months}mo" if months % 12 else f"{months // 12}y"


def month_day_of(words: Sequence[str]) -> MonthDay:
    """Return ``31``, ``last``, ``first mon`` or ``last fri`` as a day of every month.

    Raises
    ------
    ArgumentError
        For anything else.
    """
    match words:
        case [number] if number.isdecimal() and number.isascii() and 1 <= int(number[:9]) <= 31:
            return MonthDay(int(number))
        case ["last"]:
            return MonthDay(-1)
        case [ordinal, weekday] if ordinal in ORDINALS:
            return MonthDay(ORDINALS[ordinal], _weekday(weekday))
    raise ArgumentError(
        f"{quote(' '.join(words))} is no day of a month", "write 1 to 31, last, first mon, last fri"
    )


def month_day_text(day: MonthDay) -> str:
    """Return a day of a month as `month_day_of` reads it."""
    if day.weekday is None:
        return "last" if day.number < 0 else str(day.number)
    ordinal = next(word for word, number in ORDINALS.items() if number == day.number)
    return f"{ordinal} {WEEKDAYS[day.weekday]}"


def dates_of(words: Sequence[str]) -> tuple[date, ...]:
    """Return dates, ascending, from ``2026-12-25`` and ``2026-12-24..2026-12-31``.

    Raises
    ------
    ArgumentError
        For an invalid date, a range that runs backwards, or more than MAX_DATES.
    """
    found: set[int] = set()
    for word in words:
        first, dots, last = word.partition("..")
        low, high = _date(first).toordinal(), _date(last if dots else first).toordinal()
        if low > high:
            raise ArgumentError(f"{quote(word)} runs backwards", "write the earlier date first")
        if len(found) + high - low >= MAX_DATES:
            raise ArgumentError(f"more than {MAX_DATES} dates", "write fewer")
        found.update(range(low, high + 1))
    return tuple(map(date.fromordinal, sorted(found)))


def _date(word: str) -> date:
    try:
        # One that is not of this form is read as nothing, 30 February is not read.
        return date.fromisoformat(word if _DATE.fullmatch(word) else "")
    except ValueError as error:
        raise ArgumentError(f"{quote(word)} is no date", "write such as 2026-12-25") from error


def day_words(days: Sequence[int]) -> list[str]:
    """Return ascending weekdays briefly, so that `days_of` reads them back: ``mon..fri``."""
    return [_range(WEEKDAYS[low], WEEKDAYS[high], high - low) for low, high in _runs(days)]


def date_words(dates: Sequence[date]) -> list[str]:
    """Return ascending dates briefly, so that `dates_of` reads them back."""
    runs = _runs([one.toordinal() for one in dates])
    return [
        _range(date.fromordinal(a).isoformat(), date.fromordinal(b).isoformat(), b - a)
        for a, b in runs
    ]


def _range(first: str, last: str, more: int) -> str:
    return first if not more else f"{first}..{last}"


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return (first, last) of each stretch of neighbours."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def check_bundle(bundle: Resources) -> Resources:
    """Return a bundle if it has at least one resource, else raise ArgumentError."""
    if not bundle:
        raise ArgumentError("the bundle is empty", "write at least one resource: <1 cpu>")
    return bundle


def check_resource(name: str) -> str:
    """Return the name of a resource if it is not that of a unit, else raise ArgumentError.

    ``2 GiB`` would otherwise be two of a resource named GiB.
    """
    if name in UNITS:
        of = "cpu" if name == "m" else "memory"
        raise ArgumentError(f"{name!r} is a unit of {of}, not a resource", "name the resource")
    return name


def check_zone(value: str) -> str:
    """Return an IANA zone name if it is known, else raise ArgumentError with the nearest."""
    if _ZONE_NAME.fullmatch(value) and _is_zone(value):
        return value
    found = nearest(value, _zone_names())
    fix = f"did you mean {found!r}?" if found else "write an IANA name such as Europe/Paris"
    raise ArgumentError(f"unknown time zone {quote(value)}", fix)


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, or the name of a directory
        return False
    return True


def missing_arguments(operator: str, given: Mapping[str, object]) -> str | None:
    """Return a message if required arguments are not among `given`, else None."""
    required = REQUIRED[operator]
    if operator == "atom" and ("tasks" in given or "each" in given):
        beside = [name for name in ("lease", "work") if name in given]
        if beside:
            return f"atom has both {' and '.join(beside)} and tasks or each: keep one way to say it"
        required = ("bundle", *TASKS)
    missing = [
        "of (an expression)" if name == "of" else name for name in required if name not in given
    ]
    return f"{operator} needs {' and '.join(missing)}" if missing else None


def usage(operator: str, given: Collection[str] = ()) -> str:
    """Return how an operator is written, with its required arguments.

    The form of an atom that `given` describes by tasks.
    """
    if operator == "atom" and any(name in given for name in TASKS):
        return "atom(bundle, tasks=100, each=5m)"
    if operator in VARIADIC:
        return f"{operator}(e1, e2)"
    if operator == "graph":
        return "graph(a: e1, b: e2; a -> b)"
    names = {"of": "e"}
    return f"{operator}({', '.join(names.get(name, name) for name in REQUIRED[operator])})"


@cache
def _zone_names() -> frozenset[str]:
    """Return every zone; gathering them reads a directory tree, so it is done once."""
    return frozenset(available_timezones())
