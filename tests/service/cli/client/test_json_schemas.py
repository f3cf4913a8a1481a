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
from tests.service.cli.command_line import MINUTES, agenda, write_day
from tests.service.conftest import Service

_FITS = "window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +1h)"
_ONE = "window(atom(<1 cpu>, 1, 4, 10m, 2h), 0, 8h)"
_HISTORY = "JobID|JobName|User|Start|End|AllocCPUS|ReqMem|State\n" + "".join(
    f"{40 + day}|etl|ada|2026-11-{day:02}T02:00:00|2026-11-{day:02}T02:4{day}:00|16|64G|COMPLETED\n"
    for day in range(1, 8)
)
#: What documents may have beyond what their schemas know.
_MORE = {"goal", "held_work", "machine_loss"}
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
        ("usage", ()),
        ("outages list", ()),
        ("audit", ()),
        ("reservations cancel", ("first",)),
    ):
        words = command.split()
        done = agenda(*words, *more, "-o", "json")
        jsonschema.validate(json.loads(done.stdout), _schema(*words))


def test_documents_of_files(tmp_path: Path) -> None:
    """What commands make of files fits its schema, and has what the schema knows."""
    lines = [{"id": f"r{n}", "rdl": _ONE, "tenant": "ab"[n % 2]} for n in range(9)]
    cluster, workload = write_day(tmp_path, MINUTES, lines)
    plan, other, request = (tmp_path / name for name in ("plan.json", "other.json", "one.rdl"))
    request.write_text(_ONE)
    agenda("plan", cluster, workload, "--agent", "gree", "--out", other)
    history = tmp_path / "history.txt"
    history.write_text(_HISTORY)
    for command, more in (
        ("plan", (cluster, workload, "--out", plan)),
        ("validate", (plan,)),
        ("plan-diff", (other, plan)),
        ("compare", (cluster, workload, "--agents", "gree,headroom")),
        ("optimize", (plan, "--solver", "hybrid", "--time-limit", "1s", "--admit-refused")),
        ("lotes", (cluster, workload, "--explain")),
        ("rdl check", (request,)),
        ("estimate", (history,)),
    ):
        words = command.split()
        done = agenda(*words, *more, "-o", "json")
        assert done.exit_code == DONE, done.stderr
        found, schema = json.loads(done.stdout), _schema(*words)
        jsonschema.validate(found, schema)
        if "required" in schema:
            assert set(schema["required"]) <= set(found) <= set(schema["properties"]) | _MORE


def test_a_request_that_is_wrong_fits_too(tmp_path: Path) -> None:
    """`rdl check` answers with its problems."""
    request = tmp_path / "one.rdl"
    request.write_text("atom(<1 cpu>, 2, 1, 3, 4)")
    done = agenda("rdl", "check", request, "-o", "json")
    assert done.exit_code == ERROR
    jsonschema.validate(json.loads(done.stdout), _schema("rdl", "check"))


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
