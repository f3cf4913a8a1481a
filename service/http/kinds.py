"""Kinds: valid values of body and query members, for their annotations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

from rdl.durations import TimeTextError, parse_duration, parse_instant
from rdl.expressions import AfterSubmission, Moment
from rdl.text_file import name_form
from service.problems import FieldError


@dataclass(frozen=True, slots=True, eq=False)
class MemberKind:
    """Valid values of a member of an `Input`, given in the member's annotation.

    Attributes
    ----------
    schema
        JSON Schema of the value.
    read
        Converts the JSON value (the string, in a query) for the handler, or raises FieldError.
    """

    schema: Mapping[str, Any]
    read: Callable[[Any], Any]


def kind_of(value: object) -> str:
    """Return the JSON type of a value, with an article."""
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    if value is None:
        return "null"
    return names.get(type(value), "an array" if isinstance(value, list) else "an object")


#: Pattern of ids, and of user names of tokens.
ID_PATTERN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+~-]{0,127}")

#: Schema of an id, in a body or a path.
ID_SCHEMA: Final = {"type": "string", "pattern": f"^{ID_PATTERN.pattern}$"}

#: Control characters, and invisible or direction-changing ones.
_UNSEEN = (
    r"\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb"
)
_SEEN = re.compile(f"[^{_UNSEEN}]+")


def read_identifier(value: object) -> str:
    """Return an id.

    Raises
    ------
    FieldError
        If it holds other characters, or too many.
    """
    if not isinstance(value, str) or not ID_PATTERN.fullmatch(value):
        raise FieldError(
            "write 1 to 128 ASCII letters, digits or _ . : @ + ~ -, the first a letter, digit or _"
        )
    return value


def text(longest: int = 128) -> MemberKind:
    """Return the kind of non-empty printable strings of at most `longest` characters."""

    def read(value: object) -> str:
        if not isinstance(value, str) or len(value) > longest or not _SEEN.fullmatch(value):
            raise FieldError(f"write a string of 1 to {longest} printable characters")
        return name_form(value)

    pattern = f"^{_SEEN.pattern}$"
    return MemberKind(
        {"type": "string", "minLength": 1, "maxLength": longest, "pattern": pattern}, read
    )


def number(low: float, high: float) -> MemberKind:
    """Return the kind of finite numbers in [low, high]."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FieldError(f"write a number, not {kind_of(value)}")
        if not low <= value <= high:
            raise FieldError(f"must be between {low:g} and {high:g}, not {value}")
        return float(value)

    return MemberKind({"type": "number", "minimum": low, "maximum": high}, read)


def integer(low: int, high: int) -> MemberKind:
    """Return the kind of integers in [low, high]; in a query they are text."""

    def read(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON Schema counts 3.0 as an integer
        if isinstance(value, bool) or not isinstance(value, int):
            raise FieldError("write a whole number")
        if not low <= value <= high:
            raise FieldError(f"must be between {low} and {high}, not {value}")
        return value

    return MemberKind({"type": "integer", "minimum": low, "maximum": high}, read)


def choice(options: Sequence[str]) -> MemberKind:
    """Return the kind of one of `options`."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in options:
            raise FieldError(f"{value!r} is not one of {', '.join(options)}")
        return value

    return MemberKind({"type": "string", "enum": list(options)}, read)


def matching(
    pattern: re.Pattern[str], fault: str, make: Callable[[re.Match[str]], Any]
) -> MemberKind:
    """Return the kind of texts of a pattern; `fault` completes the error: ``'x' is ...``."""

    def read(value: str) -> Any:
        match = pattern.fullmatch(value)
        if match is None:
            raise FieldError(f"{value!r} {fault}")
        return make(match)

    return MemberKind({"type": "string", "pattern": f"^{pattern.pattern}$"}, read)


def array(entry: MemberKind, least: int, most: int, fault: str) -> MemberKind:
    """Return the kind of arrays of `least` to `most` values of kind `entry`, as tuples."""

    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise FieldError(fault)
        return tuple(map(entry.read, value))

    schema: dict[str, Any] = {"type": "array", "items": entry.schema, "maxItems": most}
    return MemberKind(schema | ({"minItems": least} if least else {}), read)


def any_value(schema: Mapping[str, Any]) -> MemberKind:
    """Return the kind of values that are passed on unchanged."""
    return MemberKind(schema, lambda value: value)


def _read_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise FieldError("write true or false")


_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?"
_LENGTH: Final = f"(?:{_NUMBER}[smhdw])*{_NUMBER}[smhdw]?"
_CALENDAR: Final = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,30})?"
    r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)

#: Patterns of times and lengths; rdl.durations checks them exactly.
LENGTH_PATTERN: Final = f"^{_LENGTH}$"
_INSTANT_PATTERN: Final = f"^(?:\\+?{_LENGTH}|{_CALENDAR})$"
_QUERY_INSTANT_PATTERN: Final = f"^(?:[+-]?{_LENGTH}|{_CALENDAR})$"


def _instant(value: str) -> Moment:
    try:
        return parse_instant(value)
    except TimeTextError as error:
        raise FieldError(str(error)) from error


def _read_query_instant(value: str) -> Moment:
    """Return an instant in a query; a negative duration is before now."""
    if not value.startswith("-"):
        return _instant(value.replace(" ", "+"))
    return AfterSubmission(-_read_length(value[1:]))


def _read_instant(value: object) -> Moment:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise FieldError("write seconds from the origin, +2h from now, or RFC 3339")
    return _instant(str(value))


def _read_length(value: str) -> int:
    try:
        length = parse_duration(value)
    except TimeTextError as error:
        raise FieldError(str(error)) from error
    if length <= 0:
        raise FieldError("must be longer than 0")
    return length


def length_up_to(
    longest_ms: int, example: str, most: str, examples: Sequence[Any], default: int | None = 60
) -> MemberKind:
    """Return the kind of lengths of time in a body, seconds or a duration, read as ms.

    Parameters
    ----------
    longest_ms
        The longest, and `most` in the form for people.
    example
        Example duration for messages.
    examples, default
        For the schema; None: without a default.
    """

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise FieldError(f"write seconds, or a duration such as {example}")
        try:
            length = parse_duration(str(value))
        except TimeTextError as error:
            raise FieldError(str(error)) from error
        if not 0 < length <= longest_ms:
            raise FieldError(f"must be above 0 and at most {most}")
        return length

    schema = {
        "type": ["string", "number"],
        "exclusiveMinimum": 0,
        "maximum": longest_ms // 1000,
        "pattern": LENGTH_PATTERN,
        "examples": list(examples),
        **({} if default is None else {"default": default}),
    }
    return MemberKind(schema, read)


#: Up to 128 letters, digits and ``_ . : @ + ~ -``.
ID: Final = MemberKind(ID_SCHEMA, read_identifier)
Id: TypeAlias = Annotated[str, ID]
#: Up to 128 printable characters.
Word: TypeAlias = Annotated[str, text()]
Flag: TypeAlias = Annotated[bool, MemberKind({"type": "boolean", "default": False}, _read_flag)]
#: Of a query: seconds from the origin, a duration from the origin, ``+2h`` from now, ``-2h`` before
#: now, or RFC 3339. The '+' of a zone or of +2h arrives as a space if a client did not encode it.
QueryTime: TypeAlias = Annotated[
    Moment,
    MemberKind(
        {
            "type": "string",
            "pattern": _QUERY_INSTANT_PATTERN,
            "examples": ["3600", "+2h", "-24h", "2026-01-05T09:00:00Z"],
        },
        _read_query_instant,
    ),
]
#: Of a body: as `QueryTime`, or a number of seconds from the origin.
BodyTime: TypeAlias = Annotated[
    Moment,
    MemberKind(
        {
            "type": ["string", "number"],
            "minimum": 0,
            "pattern": _INSTANT_PATTERN,
            "examples": ["+2h", "2026-01-05T09:00:00Z", 3600],
        },
        _read_instant,
    ),
]
#: Of a query: a length of time, seconds or a duration; read as ms, positive.
QueryLength: TypeAlias = Annotated[
    int,
    MemberKind(
        {"type": "string", "pattern": LENGTH_PATTERN, "examples": ["60", "5m"]}, _read_length
    ),
]
