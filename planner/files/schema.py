"""Check a document against one of the JSON Schemas of this package, with messages for people.

The schemas are JSON Schema 2020-12; this module supports the keywords that they use (type, enum,
const, properties, required, additionalProperties, items, prefixItems, minItems, maxItems, minimum,
maximum, exclusiveMinimum, minLength, pattern, oneOf, $ref into $defs). The tests compare it with a
full implementation, `jsonschema`, which cannot replace it: its messages do not suggest the nearest
known key or the intended form of a tagged value, and it takes several times as long per line of a
workload.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from math import isfinite
from typing import Any

from planner.files.errors import FileProblem, FileProblems
from rdl.errors import nearest

Json = Mapping[str, Any]

_WORDS = {
    "object": "an object",
    "array": "a list",
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
}


@cache
def load_schema(name: str) -> dict[str, Any]:
    """Return the schema ``cluster``, ``workload``, ``plan`` or ``classes`` as parsed JSON."""
    text = resources.files("planner.files").joinpath(f"schemas/{name}.schema.json").read_text()
    schema: dict[str, Any] = json.loads(text)
    return schema


def schema_problems(document: object, name: str, part: str | None = None) -> FileProblems:
    """Return the problems of `document`, in document order; empty if it is valid.

    With `part`, the document is one of the ``$defs`` of the schema.
    """
    schema = load_schema(name)
    found: FileProblems = FileProblems()
    _check(document, schema if part is None else schema["$defs"][part], schema, "", found)
    return found


def _check(value: object, schema: Json, root: Json, at: str, found: FileProblems) -> None:
    reference = schema.get("$ref")
    if reference is not None:
        _check(value, root["$defs"][reference.removeprefix("#/$defs/")], root, at, found)
        return
    if "oneOf" in schema:
        _check_one_of(value, schema, root, at, found)
        return
    if not _has_type(value, schema.get("type")):
        if not found.count_only():
            message = f"expected {_type_words(schema)}, not {_brief_json(value)}"
            found.append(FileProblem(message, at or "/"))
        return
    if "enum" in schema and value not in schema["enum"]:
        if not found.count_only():
            found.append(_not_in(value, [str(one) for one in schema["enum"]], at))
        return
    if isinstance(value, Mapping):
        _check_object(value, schema, root, at, found)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        _check_list(value, schema, root, at, found)
    else:
        _check_scalar(value, schema, at, found)


def _check_object(
    value: Mapping[str, object], schema: Json, root: Json, at: str, found: FileProblems
) -> None:
    properties: Json = schema.get("properties", {})
    rest = schema.get("additionalProperties", True)
    for key in schema.get("required", ()):
        if key not in value and not found.count_only():
            fix = _example_of(properties.get(key, {}), root)
            found.append(FileProblem(f"{key!r} is missing", at or "/", fix=fix))
    for key, entry in value.items():
        here = f"{at}/{_escape(key)}"
        inner = properties.get(key)
        if inner is not None:
            _check(entry, inner, root, here, found)
        elif rest is False:
            if not found.count_only():
                found.append(_unknown_key(key, list(properties), here))
        elif isinstance(rest, Mapping):
            _check(entry, rest, root, here, found)


def _example_of(schema: Json, root: Json) -> str | None:
    """Return the example of a schema as advice, if it has one."""
    examples, reference = schema.get("examples"), schema.get("$ref")
    if examples is not None:
        return f"write such as {json.dumps(examples[0])}"
    if reference is not None:
        return _example_of(root["$defs"][reference.removeprefix("#/$defs/")], root)
    return None


def _check_list(
    value: Sequence[object], schema: Json, root: Json, at: str, found: FileProblems
) -> None:
    least, most = schema.get("minItems", 0), schema.get("maxItems")
    if len(value) < least or (most is not None and len(value) > most):
        wanted = f"{least} or more" if most is None else f"{least} to {most}"
        wanted = str(least) if most == least else wanted
        found.append(FileProblem(f"expected {wanted} entries, not {len(value)}", at or "/"))
        return
    first: Sequence[Json] = schema.get("prefixItems", ())
    items = schema.get("items")
    for index, entry in enumerate(value):
        inner = first[index] if index < len(first) else items
        if isinstance(inner, Mapping):
            _check(entry, inner, root, f"{at}/{index}", found)


def _check_scalar(value: object, schema: Json, at: str, found: FileProblems) -> None:
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            found.append(FileProblem("the text is empty", at))
        pattern = schema.get("pattern")
        if pattern is not None and not re.search(pattern, value):
            found.append(FileProblem(f"{value!r} has another form", at, fix=_advice(schema)))
    elif isinstance(value, float) and not isfinite(value):
        found.append(FileProblem(f"expected a finite number, not {value}", at))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
        high = schema.get("maximum")
        if low is not None and value < low:
            found.append(FileProblem(f"{value} is less than {low}", at))
        if above is not None and value <= above:
            found.append(FileProblem(f"{value} is not more than {above}", at))
        if high is not None and value > high:
            found.append(FileProblem(f"{value} is more than {high}", at))


def _check_one_of(value: object, schema: Json, root: Json, at: str, found: FileProblems) -> None:
    """Accept the first form that fits; else report problems of the intended form, or all forms."""
    options = [_resolve(option, root) for option in schema["oneOf"]]
    tag = schema.get("x-tag")
    if tag is not None and isinstance(value, Mapping):
        _check_tagged(value, options, tag, root, at, found)
        return
    attempts: list[FileProblems] = []
    for option in options:
        problems: FileProblems = FileProblems()
        _check(value, option, root, at, problems)
        if not problems:
            return
        if _has_type(value, option.get("type")):
            attempts.append(problems)
    if len(attempts) == 1:
        found.extend(attempts[0])
        return
    wanted = " or ".join(dict.fromkeys(_type_words(option) for option in options))
    fix = _advice(schema)
    found.append(FileProblem(f"expected {wanted}, not {_brief_json(value)}", at or "/", fix=fix))


def _check_tagged(
    value: Mapping[str, object],
    options: Sequence[Json],
    tag: str,
    root: Json,
    at: str,
    found: FileProblems,
) -> None:
    """Pick the form by the key `tag` (the ``type`` of a policy)."""
    known = {option["properties"][tag]["const"]: option for option in options}
    chosen = value.get(tag)
    if tag not in value:
        fix = f"write one of {', '.join(known)}"
        found.append(FileProblem(f"{tag!r} is missing", at or "/", fix=fix))
    elif not isinstance(chosen, str) or chosen not in known:
        found.append(_not_in(chosen, list(known), f"{at}/{tag}"))
    else:
        _check_object(value, known[chosen], root, at, found)


def _resolve(schema: Json, root: Json) -> Json:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    resolved: Json = root["$defs"][reference.removeprefix("#/$defs/")]
    return resolved


def _has_type(value: object, wanted: str | list[str] | None) -> bool:
    if wanted is None:
        return True
    if not isinstance(wanted, str):
        return any(_has_type(value, one) for one in wanted)
    match wanted:
        case "object":
            return isinstance(value, Mapping)
        case "array":
            return isinstance(value, list | tuple)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "integer":
            whole = isinstance(value, float) and value.is_integer()
            return (isinstance(value, int) or whole) and not isinstance(value, bool)
        case _:
            return isinstance(value, int | float) and not isinstance(value, bool)


def _type_words(schema: Json) -> str:
    wanted = schema.get("type", "something else")
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    words = " or ".join(_WORDS.get(name, name) for name in names)
    described = schema.get("description")
    return f"{words} ({described})" if described and names != ["object"] else words


def _advice(schema: Json) -> str | None:
    described = schema.get("description")
    return None if described is None else f"write {described}"


def _not_in(value: object, known: list[str], at: str) -> FileProblem:
    near = nearest(str(value), known)
    fix = f"did you mean {near!r}?" if near else f"write one of {', '.join(known)}"
    return FileProblem(f"{value!r} is not known here", at, fix=fix)


def _unknown_key(key: str, known: list[str], at: str) -> FileProblem:
    near = nearest(key, known)
    fix = f"did you mean {near!r}?" if near else f"known keys are {', '.join(known)}"
    return FileProblem(f"unknown key {key!r}", at, fix=fix)


def _brief_json(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _escape(key: str) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")
