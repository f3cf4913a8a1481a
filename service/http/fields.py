"""Fields of bodies and query strings: reading, and description in OpenAPI."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rdl.codecs.strict_json import JsonTextError, read_json
from rdl.errors import ProblemList, did_you_mean
from service.http.kinds import kind_of
from service.problems import (
    ApiError,
    FieldError,
    malformed_problem,
)

#: Size in bytes from which texts are decoded one at a time. Decoding blocks all other threads, for
#: half a second with 32 MiB: between two long texts others get their turn.
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
        Converts the JSON value (the string, in a query) for its use, or raises FieldError.
    default
        Value when absent; `REQUIRED` if the field must be given.
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
        Values in the request.
    place
        Returns the pointer of a name for error entries.

    Raises
    ------
    ApiProblemError
        ``malformed``, with an entry for each of the first unknown, missing or wrong fields.
    """
    errors: ProblemList[ApiError] = ProblemList()
    known = {field.name for field in fields}
    for name in given:
        if name not in known and not errors.count_only():
            fix = did_you_mean(str(name), sorted(known)) if known else "no value is expected here"
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
    """Return the fields of the JSON object `value`, which is at `pointer` of the body.

    Raises
    ------
    ApiProblemError
        ``malformed``.
    """
    if not isinstance(value, dict):
        message = f"an object is expected here, not {kind_of(value)}"
        raise malformed_problem([ApiError(message, pointer=pointer)])
    return read_fields(fields, value, lambda name: f"{pointer}/{_escape(name)}")


def read_query(fields: Sequence[Field], given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the query parameters of a call.

    Raises
    ------
    ApiProblemError
        ``malformed``, also if a parameter is given twice.
    """
    twice = [name for name, values in given.items() if len(values) > 1]
    if twice:
        entries = (ApiError(f"{name!r} is given twice", pointer=f"?{name}") for name in twice)
        raise malformed_problem(ProblemList(entries))
    return read_fields(fields, {k: v[0] for k, v in given.items()}, lambda name: f"?{name}")


def parse_json(raw: bytes, pointer: str) -> Any:
    """Return the JSON value in `raw`; duplicate keys in an object are errors.

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
        fix = "send one complete JSON value"
        raise malformed_problem(
            [ApiError(f"not JSON: {error}", pointer=pointer, fix=fix)]
        ) from error


def _decoded(raw: bytes) -> Any:
    value = msgspec.json.decode(raw)
    if not _says_all(raw, value):
        read_json(raw)
    return value


def _says_all(raw: bytes, value: object) -> bool:
    """Return whether a flat object certainly has no duplicate keys; False if unsure.

    The parser keeps the last value of a duplicate key. Names and texts have two quotes each, so
    that a lost name leaves two extra quotes; this check takes a tenth of the time of strict
    parsing.
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


def schema_of(fields: Sequence[Field]) -> dict[str, Any]:
    """Return the JSON Schema of an object of these fields."""
    return {
        "type": "object",
        "properties": {f.name: {**f.schema, "description": f.description} for f in fields},
        "required": [f.name for f in fields if f.required],
        "additionalProperties": False,
    }
