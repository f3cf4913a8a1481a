"""Fields for times and lengths of time, in a body or a query string."""

from __future__ import annotations

from typing import Any, Final

from rdl.durations import TimeTextError, parse_duration, parse_instant
from rdl.expressions import Instant
from service.api.fields import REQUIRED, Field, FieldError

_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?"
_LENGTH: Final = f"(?:{_NUMBER}[smhdw])*{_NUMBER}[smhdw]?"
_CALENDAR: Final = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,30})?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)

#: How texts of times and lengths look; rdl.durations says which of them are some.
LENGTH_PATTERN: Final = f"^{_LENGTH}$"
INSTANT_PATTERN: Final = f"^(?:\\+?{_LENGTH}|{_CALENDAR})$"


def moment(name: str, description: str, default: Any = None) -> Field:
    """Return a query field for a time, read as an `Instant` of rdl.

    Seconds from the origin, a duration from the origin, ``+2h`` from now, or RFC 3339.
    """
    # The '+' of a zone or of +2h arrives as a space where a client did not encode it.
    examples = ["3600", "+2h", "2026-01-05T09:00:00Z"]
    schema = {"type": "string", "pattern": INSTANT_PATTERN, "examples": examples}
    return Field(name, description, schema, lambda v: _instant(v.replace(" ", "+")), default)


def instant(name: str, description: str, default: Any = REQUIRED) -> Field:
    """Return a body's field for a time: as `moment`, or a number of seconds from the origin."""

    def read(value: object) -> Instant:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise FieldError("write seconds from the origin, +2h from now, or RFC 3339")
        return _instant(str(value))

    schema = {
        "type": ["string", "number"],
        "minimum": 0,
        "pattern": INSTANT_PATTERN,
        "examples": ["+2h", "2026-01-05T09:00:00Z", 3600],
    }
    return Field(name, description, schema, read, default)


def _instant(value: str) -> Instant:
    try:
        return parse_instant(value)
    except TimeTextError as error:
        raise FieldError(str(error)) from error


def span_of_time(name: str, description: str, default: Any = None) -> Field:
    """Return a query field for a length of time: seconds or a duration; read as ms, positive."""

    def read(value: str) -> int:
        try:
            length = parse_duration(value)
        except TimeTextError as error:
            raise FieldError(str(error)) from error
        if length <= 0:
            raise FieldError("must be longer than 0")
        return length

    schema = {"type": "string", "pattern": LENGTH_PATTERN, "examples": ["60", "5m"]}
    return Field(name, description, schema, read, default)
