"""`agenda json-schema`: what `-o json` of a command prints, as JSON Schema."""

from __future__ import annotations

import click

from service.cli.forms.json_schemas import JSON_VERSION, commands, schema_of
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.output import print_json


@click.command("json-schema")
@click.argument("words", metavar="[COMMAND]", nargs=-1)
@reports_errors
def json_schema(words: tuple[str, ...]) -> int:
    """Print the JSON Schema of what COMMAND prints with -o json; without one, the version.

    A program compares the version, which rises where it could break (docs/cli.md).
    """
    from service.api.openapi.specification import document
    from service.api.routes import ROUTES

    command = " ".join(words)
    if not command:
        print_json({"version": JSON_VERSION, "commands": commands()})
        return DONE
    try:
        print_json(schema_of(command, document(ROUTES)["components"]["schemas"]))
    except KeyError as error:
        raise CliError(f"{command!r} has none; write one of {', '.join(commands())}") from error
    return DONE
