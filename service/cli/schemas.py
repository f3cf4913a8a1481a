"""`agenda json-schema`: what `-o json` of a command prints; docs/cli.md says what may change.

Commands of a client print what the server answered: their schemas are those of the API. Other
documents are described in `service.cli.document_schemas`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from service.cli.document_schemas import DOCUMENTS
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.output import print_json

#: Version of all these documents: it rises where a program that reads one could break.
JSON_VERSION: Final = 1

#: Command -> the schema of the API that it prints, or the call whose answer it is; a list of it,
#: where the word is in brackets; either of both, where an asterisk follows.
_API: Final[dict[str, str]] = {
    "status": "ClusterStatus",
    "submit": "Reservation*",
    "offers": "Offers",
    "reservations submit": "Reservation*",
    "reservations list": "[Reservation]",
    "reservations show": "Reservation",
    "reservations cancel": "Reservation",
    "reservations update": "Reservation",
    "reservations wait": "Reservation",
    "holds create": "Hold",
    "holds list": "HoldList",
    "holds show": "Hold",
    "holds accept": "Reservation",
    "holds release": "Reservation",
    "apps submit": "Application",
    "apps list": "[Application]",
    "apps show": "Application",
    "apps kill": "Application",
    "assignments": "Assignment",
    "cluster check": "Cluster",
    "cluster show": "Cluster",
    "cluster table": "get /v1/dispatch/table",
    "cluster what-if": "put /v1/cluster",
    "dispatch policy": "DispatchPolicy",
    "optimizations start": "Optimization",
    "optimizations stop": "Optimization",
    "optimizations list": "OptimizationList",
    "optimizations show": "Optimization",
    "outages add": "post /v1/cluster/outages",
    "outages list": "get /v1/cluster/outages",
    "outages remove": "delete /v1/cluster/outages/{id}",
    "token create": "NewToken",
    "token list": "[Token]",
    "webhook create": "Webhook",
    "webhook list": "WebhookList",
    "webhook show": "Webhook",
}

#: Schemas that may stand in place of another: a refusal for a reservation, and for one that is not
#: kept the problem.
_INSTEAD: Final[dict[str, tuple[str, ...]]] = {"Reservation": ("Refusal", "Problem")}

#: What commands add to what the server answered.
_ADDED: Final[dict[str, dict[str, Any]]] = {
    "Refusal": {
        "accepted_now": {"type": "boolean", "description": "Whether it would be accepted now."}
    },
    "Problem": {"offers": {"type": "array", "items": {"$ref": "#/$defs/Offer"}}},
}

_API_REF: Final = "#/components/schemas/"
_OWN_REF: Final = "#/$defs/"


def commands() -> list[str]:
    """Return the commands whose documents have a schema, by name."""
    return sorted([*_API, *DOCUMENTS])


def schema_of(command: str, api: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of what a command prints, complete in itself.

    Parameters
    ----------
    command
        One of `commands`.
    api
        The OpenAPI document.
    """
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"agenda:{JSON_VERSION}:{command.replace(' ', '-')}",
        "title": f"agenda {command} -o json",
    }
    if command in DOCUMENTS:
        return head | DOCUMENTS[command]
    components = api["components"]["schemas"]
    body = _printed(_API[command], api["paths"])
    return {
        **head,
        **body,
        "$defs": {one: _own(one, components[one]) for one in sorted(_reachable(body, components))},
    }


def _printed(name: str, paths: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a name of `_API`, with references to the document's own definitions."""
    if "/" in name:
        method, path = name.split()
        answers = paths[path][method]["responses"]
        good = next(answers[code] for code in sorted(answers) if code.startswith("2"))
        moved: dict[str, Any] = _moved(good["content"]["application/json"]["schema"])
        return moved
    single = name.strip("[]*")
    names = [single, *_INSTEAD.get(single, ())]
    body: dict[str, Any] = {"anyOf": [{"$ref": _OWN_REF + one} for one in names]}
    several = {"type": "array", "items": body}
    if name.endswith("*"):
        return {"anyOf": [body, several]}
    return several if name.startswith("[") else body


def _reachable(body: Any, components: Mapping[str, Any]) -> set[str]:
    """Return which components a schema refers to, by whatever way."""
    found: set[str] = set()  # `Offer` is reached through the refusal in every problem
    waiting = list(_references(body))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(components[name])
    return found


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        target = schema.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(_OWN_REF).removeprefix(_API_REF).partition("/")[0]
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _own(name: str, schema: Any) -> Any:
    """Return a schema of the API as part of a document that a command prints."""
    moved = _moved(schema)
    if name in _ADDED:
        moved = {**moved, "properties": {**moved["properties"], **_ADDED[name]}}
    return moved


def _moved(schema: Any) -> Any:
    """Return a schema of the API whose references are those of one document."""
    if isinstance(schema, Mapping):
        return {
            key: value.replace(_API_REF, _OWN_REF)
            if key == "$ref" and isinstance(value, str)
            else _moved(value)
            for key, value in schema.items()
        }
    return [_moved(one) for one in schema] if isinstance(schema, list) else schema


@click.command("json-schema")
@click.argument("words", metavar="[COMMAND]", nargs=-1)
@reports_errors
def json_schema(words: tuple[str, ...]) -> int:
    """Print the JSON Schema of what COMMAND prints with -o json; without one, the version.

    A program compares the version, which rises where it could break (docs/cli.md).
    """
    from service.http.specification import document
    from service.resources.table import ROUTES

    command = " ".join(words)
    if not command:
        print_json({"version": JSON_VERSION, "commands": commands()})
        return DONE
    if command not in commands():
        raise CliError(f"{command!r} has none; write one of {', '.join(commands())}")
    print_json(schema_of(command, document(ROUTES)))
    return DONE
