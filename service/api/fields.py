"""What a body or a query string may hold: read from it, and described in OpenAPI."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rdl.codecs.strict_json import JsonTextError, read_json
from rdl.durations import TimeTextError, parse_duration, parse_instant
from rdl.errors import ProblemList, did_you_mean
from rdl.expressions import Moment
from rdl.text_file import name_form
from service.problems import (
    ApiError,
    FieldError,
    malformed_problem,
)

#: Bytes of a text that is decoded while no other long one is. Decoding lets no other thread run,
#: for half a second where the text has 32 MiB: between two of them others have their turn.
_LONG: Final = 1_000_000
_one_by_one: Final = threading.Lock()

#: Default of a field that must be given.
REQUIRED: Final = object()


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a JSON object, or one query parameter.

    Attributes
    ----------
    name, description
        For people and OpenAPI.
    schema
        JSON Schema of the value.
    read
        Turns the JSON value (the string, in a query) into what the use case takes, or raises
        FieldError.
    default
        Value when absent; `REQUIRED` where it must be there.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    read: Callable[[Any], Any]
    default: Any = REQUIRED

    @property
    def required(self) -> bool:
        """Whether the field must be given."""
        return self.default is REQUIRED


def read_fields(
    fields: Sequence[Field], given: Mapping[str, Any], place: Callable[[str], str]
) -> dict[str, Any]:
    """Return every field's value.

    Parameters
    ----------
    given
        What was sent.
    place
        Makes the pointer of a name for error entries.

    Raises
    ------
    ApiProblemError
        ``malformed``, with an entry for each of the first unknown, missing or wrong fields.
    """
    errors: ProblemList[ApiError] = ProblemList()
    known = {field.name for field in fields}
    for name in given:
        if name not in known and not errors.count_only():
            fix = did_you_mean(str(name), sorted(known)) if known else "nothing is read here"
            errors.append(ApiError(f"unknown field {name!r}", pointer=place(str(name)), fix=fix))
    values: dict[str, Any] = {}
    for field in fields:
        if field.name not in given:
            if field.required:
                fix = f"give it: {field.description.rstrip('.')}"
                message = f"{field.name!r} is missing"
                errors.append(ApiError(message, pointer=place(field.name), fix=fix))
            values[field.name] = field.default
            continue
        try:
            values[field.name] = field.read(given[field.name])
        except FieldError as error:
            errors.append(ApiError(f"{field.name}: {error}", pointer=place(field.name)))
    if errors:
        raise malformed_problem(errors)
    return values


def read_object(fields: Sequence[Field], value: object, pointer: str) -> dict[str, Any]:
    """Return the fields of the JSON object `value`, which stands at `pointer` of the body.

    Raises
    ------
    ApiProblemError
        ``malformed``.
    """
    if not isinstance(value, dict):
        message = f"an object is expected here, not {_kind(value)}"
        raise malformed_problem([ApiError(message, pointer=pointer)])
    return read_fields(fields, value, lambda name: f"{pointer}/{_escape(name)}")


def read_query(fields: Sequence[Field], given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the query parameters of a call.

    Raises
    ------
    ApiProblemError
        ``malformed``; a parameter given twice is wrong too.
    """
    twice = [name for name, values in given.items() if len(values) > 1]
    if twice:
        entries = (ApiError(f"{name!r} is given twice", pointer=f"?{name}") for name in twice)
        raise malformed_problem(ProblemList(entries))
    return read_fields(fields, {k: v[0] for k, v in given.items()}, lambda name: f"?{name}")


def parse_json(raw: bytes, pointer: str) -> Any:
    """Return the JSON value in `raw`, which has one meaning: no key twice in one object.

    Raises
    ------
    ApiProblemError
        ``malformed``.
    """
    try:
        if len(raw) <= _LONG:
            return _decoded(raw)
        with _one_by_one:
            return _decoded(raw)
    except JsonTextError as error:
        raise malformed_problem(
            [ApiError(error.message, pointer=pointer, fix=error.fix)]
        ) from error
    except RecursionError as error:
        message = "the JSON is nested too deeply"
        raise malformed_problem([ApiError(message, pointer=pointer)]) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        fix = "send one JSON value, whole"
        raise malformed_problem(
            [ApiError(f"not JSON: {error}", pointer=pointer, fix=fix)]
        ) from error


def _decoded(raw: bytes) -> Any:
    value = msgspec.json.decode(raw)
    if not _says_all(raw, value):
        read_json(raw)
    return value


def _says_all(raw: bytes, value: object) -> bool:
    """Return whether a flat object surely says all that its text says; False elsewhere.

    The reader keeps the last of a key given twice. Names and texts have two quotes each, so a name
    that is lost leaves two too many; this takes a tenth of the time that reading strictly does.
    """
    if type(value) is not dict:
        return False
    quoted = len(value)
    for member in value.values():
        kind = type(member)
        if kind is dict or kind is list:
            return False
        quoted += kind is str
    return raw.count(b'"') == 2 * quoted


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _kind(value: object) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string"}
    if value is None:
        return "null"
    return names.get(type(value), "an array" if isinstance(value, list) else "an object")


_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+~-]{0,127}")

#: Schema of an id, in a body or a path.
ID_SCHEMA: Final = {"type": "string", "pattern": f"^{_ID.pattern}$"}

#: Controls, and what shows nothing or turns the direction of what follows.
_UNSEEN = (
    r"\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb"
)
_SEEN = re.compile(f"[^{_UNSEEN}]+")


def identifier(name: str, description: str, default: Any = REQUIRED) -> Field:
    """Return a field for an id: up to 128 letters, digits and ``_ . : @ + ~ -``."""
    return Field(name, description, ID_SCHEMA, read_identifier, default)


def read_identifier(value: object) -> str:
    """Return an id.

    Raises
    ------
    FieldError
        If it holds other characters, or too many.
    """
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise FieldError(
            "write 1 to 128 ASCII letters, digits or _ . : @ + ~ -, the first a letter, digit or _"
        )
    return value


def text(name: str, description: str, default: Any = REQUIRED, longest: int = 128) -> Field:
    """Return a field for a word: not empty, not longer than `longest`, all of it to be seen."""

    def read(value: object) -> str:
        if not isinstance(value, str) or len(value) > longest or not _SEEN.fullmatch(value):
            raise FieldError(f"write a string of 1 to {longest} printable characters")
        return name_form(value)

    pattern = f"^{_SEEN.pattern}$"
    schema = {"type": "string", "minLength": 1, "maxLength": longest, "pattern": pattern}
    return Field(name, description, schema, read, default)


def number(name: str, description: str, low: float, high: float, default: Any = REQUIRED) -> Field:
    """Return a field for a finite number in [low, high]."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FieldError(f"write a number, not {_kind(value)}")
        if not low <= value <= high:
            raise FieldError(f"must be between {low:g} and {high:g}, not {value}")
        return float(value)

    schema = {"type": "number", "minimum": low, "maximum": high}
    return Field(name, description, schema, read, default)


def integer(name: str, description: str, low: int, high: int, default: Any = REQUIRED) -> Field:
    """Return a field for a whole number in [low, high]; in a query it is text."""

    def read(value: object) -> int:
        if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value, re.ASCII):
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # to JSON Schema 3.0 is an integer
        if isinstance(value, bool) or not isinstance(value, int):
            raise FieldError("write a whole number")
        if not low <= value <= high:
            raise FieldError(f"must be between {low} and {high}, not {value}")
        return value

    schema = {"type": "integer", "minimum": low, "maximum": high}
    return Field(name, description, schema, read, default)


def flag(name: str, description: str) -> Field:
    """Return a field for true or false; absent is false."""

    def read(value: object) -> bool:
        if isinstance(value, bool):
            return value
        if value in ("true", "false"):
            return value == "true"
        raise FieldError("write true or false")

    return Field(name, description, {"type": "boolean", "default": False}, read, False)


def choice(name: str, description: str, options: Sequence[str], default: Any = REQUIRED) -> Field:
    """Return a field for one of `options`."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in options:
            raise FieldError(f"{value!r} is not one of {', '.join(options)}")
        return value

    return Field(name, description, {"type": "string", "enum": list(options)}, read, default)


def any_value(name: str, description: str, schema: Mapping[str, Any]) -> Field:
    """Return a required field whose value is handed on as it is."""
    return Field(name, description, schema, lambda value: value)


def schema_of(fields: Sequence[Field]) -> dict[str, Any]:
    """Return the JSON Schema of an object of these fields."""
    return {
        "type": "object",
        "properties": {f.name: {**f.schema, "description": f.description} for f in fields},
        "required": [f.name for f in fields if f.required],
        "additionalProperties": False,
    }


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
    """Return a query field for a time, read as an `Moment` of rdl.

    Seconds from the origin, a duration from the origin, ``+2h`` from now, or RFC 3339.
    """
    # The '+' of a zone or of +2h arrives as a space where a client did not encode it.
    examples = ["3600", "+2h", "2026-01-05T09:00:00Z"]
    schema = {"type": "string", "pattern": INSTANT_PATTERN, "examples": examples}
    return Field(name, description, schema, lambda v: _instant(v.replace(" ", "+")), default)


def instant(name: str, description: str, default: Any = REQUIRED) -> Field:
    """Return a body's field for a time: as `moment`, or a number of seconds from the origin."""

    def read(value: object) -> Moment:
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


def _instant(value: str) -> Moment:
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
