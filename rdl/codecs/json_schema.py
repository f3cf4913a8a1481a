"""The JSON Schema of RDL as JSON, generated from the table of operators and arguments.

Everything that the reader accepts is valid. A schema cannot compare numbers or look up a zone, so
the reader still rejects some valid documents: a ``max`` below its ``min``, an unknown zone, a name
that no part of a graph has.
"""

from __future__ import annotations

from typing import Any, Final

from rdl.operators import (
    ARGUMENTS,
    LONGEST_NAME,
    MAX_COUNT,
    MAX_RESOURCES,
    ORDINALS,
    REQUIRED,
    TASKS,
    VARIADIC,
    WEEKDAYS,
    Reads,
)

_EXPRESSION: Final = {"$ref": "#/$defs/expression"}
_NUMBER: Final = r"[0-9]+(\.[0-9]+)?"
_DURATION: Final = rf"^\s*({_NUMBER}|({_NUMBER}[wdhms])+)\s*$"
_CLOCK: Final = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,3})?)?"
_DATE: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_INSTANT: Final = rf"^\s*(\+\s*)?({_NUMBER}|({_NUMBER}[wdhms])+)\s*$"
_RFC_3339: Final = (
    rf"^\s*{_DATE}[Tt ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,30}})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})\s*$"
)
_DAY: Final = f"({'|'.join(WEEKDAYS)})"
_ORDINAL: Final = f"({'|'.join(ORDINALS)})"

#: The schema of each kind of value.
_VALUES: Final[dict[Reads, dict[str, Any]]] = {
    Reads.BUNDLE: {"$ref": "#/$defs/bundle"},
    Reads.COUNT: {"type": "integer", "minimum": 1, "maximum": MAX_COUNT},
    Reads.DURATION: {"$ref": "#/$defs/duration"},
    Reads.PERIOD: {
        "oneOf": [
            {"type": "number", "minimum": 0},
            {"type": "string", "pattern": _DURATION},
            {"type": "string", "pattern": r"^\s*[0-9]{1,4}(mo|y)\s*$"},
        ]
    },
    Reads.MONTH_DAY: {
        "oneOf": [
            {"type": "integer", "minimum": 1, "maximum": 31},
            {
                "type": "string",
                "pattern": rf"^\s*({_ORDINAL}\s+{_DAY}|last|0*([1-9]|[12][0-9]|3[01]))\s*$",
            },
        ]
    },
    Reads.WORK: {"$ref": "#/$defs/duration"},
    Reads.LABEL: {"$ref": "#/$defs/name"},
    Reads.DOMAIN: {"$ref": "#/$defs/name"},
    Reads.CALENDAR: {"$ref": "#/$defs/name"},
    Reads.INSTANT: {"$ref": "#/$defs/instant"},
    Reads.ZONE: {"type": "string", "minLength": 1},
    Reads.FLAG: {"type": "boolean"},
    Reads.ANSWER: {"type": "boolean"},
    Reads.GAP: {"$ref": "#/$defs/gap"},
    Reads.WEIGHTS: {
        "type": "array",
        "items": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    },
    Reads.EXPRESSION: _EXPRESSION,
    Reads.DAYS: {
        "type": "array",
        "minItems": 1,
        "items": {"type": "string", "pattern": rf"^{_DAY}(\.\.{_DAY})?$"},
    },
    Reads.DATES: {
        "type": "array",
        "minItems": 1,
        "items": {"type": "string", "pattern": rf"^{_DATE}(\.\.{_DATE})?$"},
    },
}

_DEFINITIONS: Final[dict[str, dict[str, Any]]] = {
    "name": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME},
    "duration": {
        "description": "Seconds, or a text such as 90s, 15m, 1h30m.",
        "oneOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": _DURATION}],
    },
    "instant": {
        "description": "Seconds from the origin, +2h after the submission, 06:00, or RFC 3339.",
        "oneOf": [
            {"type": "number", "minimum": 0},
            {"type": "string", "pattern": _INSTANT},
            {"type": "string", "pattern": rf"^\s*{_CLOCK}\s*$"},
            {"type": "string", "pattern": _RFC_3339},
        ],
    },
    "gap": {
        "description": "The least time, or the least and the longest.",
        "oneOf": [
            {"$ref": "#/$defs/duration"},
            {
                "type": "array",
                "items": {"$ref": "#/$defs/duration"},
                "minItems": 2,
                "maxItems": 2,
            },
        ],
    },
    "bundle": {
        "type": "object",
        "minProperties": 1,
        "maxProperties": MAX_RESOURCES,
        "additionalProperties": {
            "oneOf": [{"type": "number", "minimum": 0}, {"type": "string", "minLength": 1}]
        },
    },
    "arrow": {
        "type": "array",
        "prefixItems": [
            {"type": "string"},
            {"type": "string"},
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {"gap": {"$ref": "#/$defs/gap"}},
            },
        ],
        "minItems": 2,
        "maxItems": 3,
    },
}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of an expression."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "RDL",
        "description": "A request for a reservation: what a job needs, and by when.",
        **_EXPRESSION,
        "$defs": {
            **_DEFINITIONS,
            "expression": {
                "type": "object",
                "oneOf": [{"$ref": f"#/$defs/{operator}"} for operator in ARGUMENTS],
            },
            **{operator: _operator(operator) for operator in ARGUMENTS},
        },
    }


def _operator(operator: str) -> dict[str, Any]:
    """Return the schema of an object that names one operator."""
    properties: dict[str, Any] = {"name": {"$ref": "#/$defs/name"}}
    if operator in VARIADIC:
        properties[operator] = {"type": "array", "items": _EXPRESSION}
        properties |= _arguments(operator)
    elif operator == "graph":
        properties[operator] = _GRAPH
    else:
        properties[operator] = _body(operator)
    return _closed(properties, [operator])


def _body(operator: str) -> dict[str, Any]:
    """Return the schema of an operator's named arguments."""
    body = _closed(_arguments(operator), list(REQUIRED[operator]))
    if operator == "atom":
        shared = body.pop("required")[:1]
        times = REQUIRED["atom"][1:]
        work = {"required": list(times), "not": _any_of(TASKS)}
        tasks = {"required": list(TASKS), "not": _any_of(("lease", "work"))}
        return {**body, "required": shared, "oneOf": [work, tasks]}
    if operator == "every":
        return {**body, "not": {"required": ["times", "until"]}}
    return body


def _any_of(keys: tuple[str, ...]) -> dict[str, Any]:
    return {"anyOf": [{"required": [key]} for key in keys]}


def _arguments(operator: str) -> dict[str, Any]:
    return {name: _VALUES[reads] for name, reads in ARGUMENTS[operator].items()}


def _closed(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


_GRAPH: Final = _closed(
    {
        "nodes": {
            "type": "object",
            "propertyNames": {"$ref": "#/$defs/name"},
            "additionalProperties": _EXPRESSION,
        },
        "edges": {"type": "array", "items": {"$ref": "#/$defs/arrow"}},
    },
    ["nodes"],
)
