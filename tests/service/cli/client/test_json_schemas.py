"""What commands print with `-o json` is what `agenda json-schema` says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from service.cli.client.server import Server
from service.cli.schemas import JSON_VERSION, commands
from service.cli.terminal.exit_codes import DONE, ERROR
from tests.service.cli.client.in_process_server import InProcessServer
from tests.service.cli.command_line import agenda
from tests.service.conftest import Service

_FITS = "window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +1h)"
_IMPOSSIBLE = "window(atom(<1 cpu>, 1, 1, 2h, 2h), +0, +1h)"


def _schema(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(agenda("json-schema", *words).stdout)
    return found


def test_the_documents_of_a_life(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Accepted, refused, impossible, listed, shown, offered, cancelled: each fits its schema."""
    ask = InProcessServer(service).call
    monkeypatch.setattr(Server, "call", lambda _, *given, **named: ask(*given, **named))
    monkeypatch.setattr(
        Server, "once", lambda _, path, body, query=None, key=None: ask("POST", path, body, query)
    )
    fits, impossible = tmp_path / "fits.rdl", tmp_path / "impossible.rdl"
    fits.write_text(_FITS)
    impossible.write_text(_IMPOSSIBLE)
    for command, more in (
        ("submit", (fits, "--id", "first")),
        ("submit", (fits, "--id", "second")),
        ("submit", (impossible,)),
        ("offers", (fits,)),
        ("reservations list", ()),
        ("reservations show", ("first",)),
        ("reservations show", ("second",)),
        ("holds list", ()),
        ("apps list", ()),
        ("optimizations list", ()),
        ("webhook list", ()),
        ("reservations cancel", ("first",)),
    ):
        words = command.split()
        done = agenda(*words, *more, "-o", "json")
        jsonschema.validate(json.loads(done.stdout), _schema(*words))


@pytest.mark.parametrize("command", commands())
def test_each_schema_is_one(command: str) -> None:
    """It is complete in itself and says its version; the command is one that there is."""
    schema = _schema(*command.split())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"].startswith(f"agenda:{JSON_VERSION}:")
    assert agenda(*command.split(), "--help").exit_code == DONE


def test_what_there_is() -> None:
    """Without a command the version and the commands are told; another has none."""
    assert _schema() == {"version": JSON_VERSION, "commands": commands()}
    assert agenda("json-schema", "serve").exit_code == ERROR
