"""Read and write durations and instants, exact to whole milliseconds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from rdl.errors import quote
from rdl.expressions import Absolute, AfterSubmission, Instant, Moment, Offset, TimeOfDay
from rdl.read_error import ReadError

#: Milliseconds per unit, largest first, as units are written in a duration.
UNITS_MS: Final[dict[str, int]] = {
    "w": 604_800_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
}

#: The longest time (about 3,000 years) and the largest work, in ms and bundle-ms. Far above any
#: plan, and far enough below 2**63 that rounding to steps and sums in int64 cannot overflow.
MAX_TIME_MS: Final = 10**14
MAX_WORK_MS: Final = 10**17

#: Longer than any valid number with nine decimals.
_MOST_CHARACTERS: Final = 60

_UNIT_LIST = "s, m, h, d or w"
_EXAMPLES = "write seconds (90, 1.5) or a duration such as 90s, 15m, 1h30m, 2d"
_INSTANT_EXAMPLES = "write seconds (90), a duration (2h), +2h or 2026-01-05T09:00:00Z"
_BOUND_EXAMPLES = "write seconds (90), a duration (2h), +2h, 06:00 or 2026-01-05T09:00:00Z"
_SIMPLE = re.compile(r"([0-9]{1,15})([smhdw])")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z_]*)")
# A lookahead, since before Python 3.11.4 a possessive group that fails midway is not undone.
_AMOUNT = r"[0-9]+(?:\.[0-9]+)?"
_COMPOUND = re.compile(rf"(?:(?={_AMOUNT}[A-Za-z_]){_AMOUNT}[A-Za-z_]+)*+(?:{_AMOUNT})?")
_LOOKS_LIKE_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_RFC_3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,30}))?(?:([Zz])|([+-]\d\d:\d\d))", re.ASCII
)
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,3}))?)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TimeTextError(ReadError):
    """A duration or an instant that cannot be read."""


def parse_duration(text: str, limit_ms: int = MAX_TIME_MS) -> int:
    """Return ``90``, ``1.5s`` or ``1h30m`` in ms; a bare number is seconds.

    Raises
    ------
    TimeTextError
        For anything else, for a fraction of a ms, and for more than `limit_ms`.
    """
    if text.isdecimal() and text.isascii() and len(text) < 16:
        return _within_limit(int(text) * 1000, text, limit_ms)
    if (simple := _SIMPLE.fullmatch(text)) is not None:
        return _within_limit(int(simple[1]) * UNITS_MS[simple[2]], text, limit_ms)
    if len(text) > _MOST_CHARACTERS:
        raise TimeTextError(f"{quote(text)} is not a duration", _EXAMPLES)
    if _NUMBER.fullmatch(text):
        return _within_limit(_whole_ms(Fraction(text) * 1000, text), text, limit_ms)
    return _within_limit(_sum_parts(text), text, limit_ms)


def read_duration(value: object, limit_ms: int = MAX_TIME_MS) -> int:
    """Return a JSON or TOML duration in ms: seconds as a number, or a string.

    Raises
    ------
    TimeTextError
        For anything that is not a duration.
    """
    if isinstance(value, str):
        return parse_duration(value.strip(), limit_ms)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TimeTextError(f"{_kind_of(value)} is not a duration", _EXAMPLES)
    if isinstance(value, int):
        if value < 0:
            raise TimeTextError(_negative(value), _EXAMPLES)
        return _within_limit(value * 1000, _digits(value), limit_ms)
    if not math.isfinite(value):
        raise TimeTextError(f"{value!r} is not a duration", _EXAMPLES)
    if value < 0:
        raise TimeTextError(_negative(value), _EXAMPLES)
    # The shortest decimal that reads back as this float is what the client wrote.
    return _within_limit(
        _whole_ms(Fraction(repr(value)) * 1000, repr(value)), repr(value), limit_ms
    )


def parse_instant(text: str) -> Moment:
    """Return ``90`` or ``2h`` as an offset, ``+2h`` after submission, RFC 3339 unchanged.

    Raises
    ------
    TimeTextError
        For anything else.
    """
    if text.startswith("+"):
        return AfterSubmission(parse_duration(text[1:].lstrip()))
    if _LOOKS_LIKE_DATE.match(text):
        return Absolute(parse_rfc3339(text))
    try:
        return Offset(parse_duration(text))
    except TimeTextError as error:
        fix = _INSTANT_EXAMPLES if error.fix == _EXAMPLES else error.fix
        raise TimeTextError(error.message, fix) from error


def parse_bound(text: str) -> Instant:
    """Return a bound of a window: as :func:`parse_instant`, and ``06:00`` as a time of day.

    Raises
    ------
    TimeTextError
        For anything else.
    """
    if ":" in text and not _LOOKS_LIKE_DATE.match(text) and not text.startswith("+"):
        return parse_time_of_day(text)
    return _with_clock(parse_instant, text)


def read_bound(value: object) -> Instant:
    """Return a bound of a window from JSON: as :func:`read_instant`, and ``"06:00"``.

    Raises
    ------
    TimeTextError
        For anything else.
    """
    if isinstance(value, str):
        return parse_bound(value.strip())
    return _with_clock(read_instant, value)


def _with_clock(read: Callable[[Any], Moment], value: object) -> Moment:
    try:
        return read(value)
    except TimeTextError as error:
        fix = _BOUND_EXAMPLES if error.fix == _INSTANT_EXAMPLES else error.fix
        raise TimeTextError(error.message, fix) from error


def parse_time_of_day(text: str) -> TimeOfDay:
    """Return ``06:00``, ``22:30:15`` or ``24:00`` as a time on a clock.

    Raises
    ------
    TimeTextError
        For an invalid time of day.
    """
    match = _CLOCK.fullmatch(text)
    if match is None:
        message = f"{quote(text)} is not a time of day"
        raise TimeTextError(message, "write such as 06:00, 22:30 or 24:00")
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[:3])
    ms = (hours * 3600 + minutes * 60 + seconds) * 1000 + int((match[4] or "0").ljust(3, "0"))
    if minutes > 59 or seconds > 59 or ms > UNITS_MS["d"]:
        message = f"no clock shows {quote(text)}"
        raise TimeTextError(message, "write a time from 00:00 to 24:00")
    return TimeOfDay(ms)


def clock_text(ms: int) -> str:
    """Return ms from midnight as ``06:00``, with seconds and decimals only where needed."""
    seconds, rest = divmod(ms, 1000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if rest:
        return f"{text}:{seconds % 60:02d}.{rest:03d}"
    return f"{text}:{seconds % 60:02d}" if seconds % 60 else text


def read_instant(value: object) -> Moment:
    """Return a JSON instant: seconds from the origin as a number, or a string; ``now`` is ``+0``.

    Raises
    ------
    TimeTextError
        For anything that is not an instant.
    """
    if isinstance(value, str):
        text = value.strip()
        return AfterSubmission(0) if text == "now" else parse_instant(text)
    try:
        return Offset(read_duration(value))
    except TimeTextError as error:
        message = error.message.replace("is not a duration", "is not a time")
        fix = _INSTANT_EXAMPLES if error.fix == _EXAMPLES else error.fix
        raise TimeTextError(message, fix) from error


def parse_rfc3339(text: str) -> datetime:
    """Return an RFC 3339 instant in UTC, to the millisecond.

    Raises
    ------
    TimeTextError
        If it is invalid, names a day or second that does not exist, or is finer than a ms.
    """
    fix = "write an instant such as 2026-01-05T09:00:00Z or 2026-01-05T09:00:00+01:00"
    match = _RFC_3339.fullmatch(text)
    if match is None:
        raise TimeTextError(f"{quote(text)} is not an instant with a zone", fix)
    day, clock, fraction, _, offset = match.groups()
    digits = (fraction or "").rstrip("0")
    if len(digits) > 3:
        raise TimeTextError(f"{quote(text)} is finer than a millisecond", "write three decimals")
    try:
        at = datetime.fromisoformat(f"{day}T{clock}{offset or '+00:00'}")
        return (at + timedelta(milliseconds=int(digits.ljust(3, "0")))).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise TimeTextError(f"{quote(text)} does not exist in the calendar", fix) from error


def epoch_ms(at: datetime) -> int:
    """Return an aware instant as ms from 1970-01-01T00:00:00Z."""
    return (at - _EPOCH) // timedelta(milliseconds=1)


def instant_of_epoch_ms(ms: int) -> datetime:
    """Return ms from 1970-01-01T00:00:00Z as an aware UTC instant.

    Raises
    ------
    TimeTextError
        If it lies outside the years 1 to 9999.
    """
    try:
        return _EPOCH + timedelta(milliseconds=ms)
    except OverflowError as error:
        message = f"{_digits(ms)} ms from 1970 is outside the calendar"
        raise TimeTextError(message, "write ms from 1970-01-01T00:00:00Z") from error


def rfc3339_text(at: datetime) -> str:
    """Return the canonical text of an instant: UTC, three decimals only where needed."""
    utc = at.astimezone(UTC)
    head = utc.replace(tzinfo=None).isoformat(timespec="seconds")
    milliseconds = utc.microsecond // 1000
    return f"{head}.{milliseconds:03d}Z" if milliseconds else f"{head}Z"


def seconds_text(ms: int) -> str:
    """Return ms as decimal seconds, exactly: 240000 -> ``240``, 500 -> ``0.5``."""
    whole, rest = divmod(ms, 1000)
    return f"{whole}.{rest:03d}".rstrip("0") if rest else str(whole)


def instant_text(instant: Instant) -> str:
    """Return the canonical text of an instant, which :func:`parse_instant` reads back."""
    match instant:
        case Offset(ms=ms):
            return seconds_text(ms)
        case AfterSubmission(ms=ms):
            return f"+{seconds_text(ms)}"
        case Absolute(at=at):
            return rfc3339_text(at)
        case TimeOfDay(ms=ms):
            return clock_text(ms)


def _sum_parts(text: str) -> int:
    """Return the sum of ``1h30m``; units go from large to small, each once."""
    if not text or not _COMPOUND.fullmatch(text):
        raise TimeTextError(f"{quote(text)} is not a duration", _EXAMPLES)
    total = Fraction(0)
    last_size = MAX_TIME_MS
    for number, unit in _PART.findall(text):
        size = UNITS_MS.get(unit)
        if size is None:
            raise TimeTextError(_unit_message(unit, text), f"write {_UNIT_LIST}")
        if size >= last_size:
            fix = "write larger units first, each once, such as 1h30m"
            raise TimeTextError(f"the units of {quote(text)} are out of order", fix)
        last_size = size
        total += Fraction(number) * size
    return _whole_ms(total, text)


def _unit_message(unit: str, text: str) -> str:
    if unit:
        return f"unknown unit {quote(unit)} in {quote(text)}"
    return f"the last number of {quote(text)} has no unit"


def _whole_ms(exact: Fraction, text: str) -> int:
    if exact.denominator != 1:
        message = f"{quote(text)} is not a whole number of milliseconds"
        raise TimeTextError(message, "write at most three decimals of a second")
    return exact.numerator


def _within_limit(ms: int, text: str, limit_ms: int) -> int:
    if ms > limit_ms:
        longest = seconds_text(limit_ms)
        raise TimeTextError(f"{quote(text)} is too long", f"write at most {longest} seconds")
    return ms


def _digits(value: int) -> str:
    """Return an integer as short text; very large ones are not converted."""
    return str(value) if abs(value) < 10**20 else f"a number of {value.bit_length()} bits"


def _negative(value: float) -> str:
    return f"{_digits(value) if isinstance(value, int) else value} is negative"


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
        case _:
            return f"a {type(value).__name__}"
