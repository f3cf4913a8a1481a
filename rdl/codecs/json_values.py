"""The values of arguments in JSON: counts, times, gaps, labels, amounts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Final

from rdl.durations import MAX_WORK_MS, read_bound, read_duration
from rdl.errors import quote
from rdl.expressions import Gap, MonthDay, Months
from rdl.operators import (
    ArgumentError,
    Reads,
    build_gap,
    check_count,
    check_name,
    check_resource,
    check_weight,
    check_zone,
    dates_of,
    days_of,
    month_day_of,
    months_of,
)
from rdl.resources import MAX_AMOUNT, Resources

_LONGEST_AMOUNT: Final = 60


def escape(key: object) -> str:
    """Return a key as one step of a JSON pointer (RFC 6901)."""
    return str(key).replace("~", "~0").replace("/", "~1")


def read_amount(entry: tuple[object, object]) -> tuple[str, int]:
    """Return one resource of a bundle and its integer amount."""
    key, value = entry
    if not isinstance(key, str) or len(key) > _LONGEST_AMOUNT:
        raise ArgumentError("the name of a resource is too long or no text", "write such as gpu")
    too_long = isinstance(value, str) and len(value) > _LONGEST_AMOUNT
    too_large = isinstance(value, int) and abs(value) > MAX_AMOUNT
    if too_long or too_large:
        raise ArgumentError(f"the amount of {quote(key)} is not plausible", "write such as 4")
    if isinstance(value, list | tuple | Mapping):
        message = f"{quote(key)} is a number or a text with a unit, not {kind_of(value)}"
        raise ArgumentError(message, 'write such as 4 or "16 GiB"')
    read = Resources.from_json({check_resource(key): value})
    for name, amount in read.items():
        return name, amount
    return key, 0


def read_count(value: object) -> int:
    """Return a count, at least 1."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentError(f"a whole number, not {kind_of(value)}", "write such as 4")
    return check_count(value)


def read_weight(value: object) -> float:
    """Return the worth of an option, in (0, 1]."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ArgumentError(
            f"the worth of an option is a number, not {kind_of(value)}", "write 0.5"
        )
    return float(check_weight(value))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ArgumentError(f"a text, not {kind_of(value)}", 'write such as "ssd"')
    return value


def read_flag(value: object) -> bool:
    """Return a boolean."""
    if not isinstance(value, bool):
        raise ArgumentError(f"true or false, not {kind_of(value)}")
    return value


def read_work(value: object) -> int:
    """Return bundle-time in bundle-ms."""
    return read_duration(value, MAX_WORK_MS)


def read_gap(value: object) -> Gap:
    """Return ``300`` as a minimum gap, ``[300, 3600]`` as a range."""
    if not isinstance(value, list | tuple):
        return build_gap(read_duration(value), None)
    if len(value) != 2:
        raise ArgumentError(f"a gap of {len(value)} values", "write 300 or [300, 3600]")
    return build_gap(read_duration(value[0]), read_duration(value[1]))


def read_label(value: object) -> str:
    """Return a label of machines."""
    return check_name(_text(value), "a label")


def read_domain(value: object) -> str:
    """Return the name of a domain."""
    return check_name(_text(value), "a domain")


def read_name(value: object) -> str:
    """Return the name of a child of a graph."""
    return check_name(_text(value), "a name")


def read_zone(value: object) -> str:
    """Return a known IANA zone name."""
    return check_zone(_text(value))


def read_period(value: object) -> int | Months:
    """Return a duration, or ``"1mo"`` as months."""
    months = months_of(value.strip()) if isinstance(value, str) else None
    return read_duration(value) if months is None else months


def read_month_day(value: object) -> MonthDay:
    """Return ``31``, ``"last"`` or ``"first mon"`` as a day of every month."""
    if isinstance(value, int) and not isinstance(value, bool):
        return month_day_of([str(value)])
    return month_day_of(_text(value).split())


def read_days(value: object) -> tuple[int, ...]:
    """Return ``["mon..fri"]`` as weekdays, 0 = Monday."""
    return days_of(_words(value, 'write such as ["mon..fri"]'))


def read_dates(value: object) -> tuple[date, ...]:
    """Return ``["2026-12-25", "2026-12-31..2027-01-02"]`` as dates."""
    return dates_of(_words(value, 'write such as ["2026-12-25"]'))


def _words(value: object, fix: str) -> list[str]:
    if not isinstance(value, list | tuple) or not value:
        shown = "an empty list" if isinstance(value, list | tuple) else kind_of(value)
        raise ArgumentError(f"a list of texts, not {shown}", fix)
    for word in value:
        if not isinstance(word, str):
            raise ArgumentError(f"a list of texts, and {kind_of(word)} is none", fix)
    return list(value)


def read_calendar(value: object) -> str:
    """Return the name of a calendar of the cluster."""
    return check_name(_text(value), "a calendar")


READERS: Final[dict[Reads, Callable[[object], Any]]] = {
    Reads.COUNT: read_count,
    Reads.DURATION: read_duration,
    Reads.PERIOD: read_period,
    Reads.MONTH_DAY: read_month_day,
    Reads.WORK: read_work,
    Reads.LABEL: read_label,
    Reads.DOMAIN: read_domain,
    Reads.INSTANT: read_bound,
    Reads.ZONE: read_zone,
    Reads.FLAG: read_flag,
    Reads.ANSWER: read_flag,
    Reads.GAP: read_gap,
    Reads.DAYS: read_days,
    Reads.DATES: read_dates,
    Reads.CALENDAR: read_calendar,
}


def kind_of(value: object) -> str:
    """Return the kind of a JSON value, for a message."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quote(value)
        case int():
            return str(value) if abs(value) < 10**20 else "a very large number"
        case float():
            return repr(value)
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
        case _:
            return f"a {type(value).__name__}"
