"""What commands print with `-o json` is what `agenda json-schema` says of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob
from service.cli.kit.errors import DONE, ERROR, REFUSED
from service.cli.kit.server import Server, ServerReply
from service.cli.main import main
from service.cli.schemas import JSON_VERSION, commands, schema_of
from service.events import EventPosition, PlanEvent
from tests.service.cli.client.in_process_server import let_commands_ask
from tests.service.cli.command_line import MINUTES, agenda, write_day
from tests.service.conftest import Service
from tests.service.description import DESCRIPTION

_FITS = "window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +1h)"
_ONE = "window(atom(<1 cpu>, 1, 4, 10m, 2h), 0, 8h)"
_HISTORY = "JobID|JobName|User|Start|End|AllocCPUS|ReqMem|State\n" + "".join(
    f"{40 + day}|etl|ada|2026-11-{day:02}T02:00:00|2026-11-{day:02}T02:4{day}:00|16|64G|COMPLETED\n"
    for day in range(1, 8)
)
#: What documents may have beyond what their schemas know.
_MORE = {"goal", "held_work", "machine_loss"}
_WORK = {"name": "w", "size": 60, "components": [
    {"name": "c", "count": 1, "core": True, "resources": {"cpu": 1}}]}  # fmt: skip
_IMPOSSIBLE = "window(atom(<1 cpu>, 1, 1, 2h, 2h), +0, +1h)"


def _schema(*words: str) -> dict[str, Any]:
    return schema_of(" ".join(words), DESCRIPTION)


def test_the_documents_of_a_life(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Accepted, refused, impossible, listed, shown, offered, cancelled: each fits its schema."""
    let_commands_ask(service, monkeypatch)
    fits, impossible = tmp_path / "fits.rdl", tmp_path / "impossible.rdl"
    several, work = tmp_path / "several.jsonl", tmp_path / "work.json"
    cluster = tmp_path / "cluster.json"
    one = tmp_path / "one.rdl"
    one.write_text(_ONE)
    fits.write_text(_FITS)
    impossible.write_text(_IMPOSSIBLE)
    several.write_text(f"{json.dumps({'rdl': _ONE})}\n" * 2)
    work.write_text(json.dumps(_WORK))
    for command, more in (
        ("cluster show", ()),
        ("submit", (fits, "--id", "first")),
        ("submit", (fits, "--id", "second")),
        ("reservations submit", (several,)),
        ("submit", (impossible,)),
        ("offers", (fits,)),
        ("reservations list", ()),
        ("reservations show", ("first",)),
        ("reservations show", ("second",)),
        ("reservations update", ("first", one)),
        ("reservations cancel", ("first",)),
        ("holds create", (fits, "--id", "held")),
        ("holds show", ("held",)),
        ("holds list", ()),
        ("holds accept", ("held",)),
        ("holds create", (one, "--id", "again")),
        ("holds release", ("again",)),
        ("apps submit", (work, "--id", "work")),
        ("apps list", ()),
        ("apps show", ("work",)),
        ("apps kill", ("work",)),
        ("assignments", ()),
        ("machines", ()),
        ("report", ()),
        ("policies set", ("team", "--limit", "cpu=99")),
        ("policies show", ("team",)),
        ("policies list", ()),
        ("dispatch policy", ()),
        ("cluster table", ()),
        ("cluster check", (cluster,)),
        ("cluster what-if", (cluster,)),
        ("optimizations start", ("--detach", "--time-limit", "1s", "--solver", "none")),
        ("optimizations list", ()),
        ("webhook create", ("https://8.8.8.8/", "--tenant", "default")),
        ("webhook list", ()),
        ("usage", ()),
        ("status", ()),
        ("outages add", ("plain", "--count", 2, "--end", "+2h")),
        ("outages list", ()),
        ("audit", ()),
    ):
        words = command.split()
        done = agenda(*words, *more, "-o", "json")
        assert done.exit_code in (DONE, REFUSED), (command, done.output)
        jsonschema.validate(json.loads(done.stdout), _schema(*words))
        if command == "cluster show":
            cluster.write_text(done.stdout)


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


def test_what_slurm_runs_and_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs of reservations and without one, and the outcome of a promise, fit their schemas."""
    comment = promise_comment("r", 1000, 40)
    job = SlurmJob(
        7, "job", "ann", comment, "RUNNING", "", ("n1",), submitted_s=900, started_s=990,
        ends_s=1010,
    )  # fmt: skip
    waiting = SlurmJob(
        8,
        "next",
        "ann",
        promise_comment("gone", 1000, 40),
        "PENDING",
        "Resources",
        (),
        submitted_s=900,
    )
    promise = {"id": "r", "tenant": "t", "promise": "kept", "is_over": True}
    held = {"state": "accepted", "begin_at": "2026-01-05T00:00:00Z", "finish_at": None}
    replies = {"/v1/promises": {"reservations": [promise]}, "/v1/reservations/r": held}
    monkeypatch.setattr(SlurmCommands, "accounted_runs", lambda *_: [job])
    monkeypatch.setattr(SlurmCommands, "jobs", lambda *_: [job, waiting])

    def call(_: Server, __: str, path: str, *___: object, **____: object) -> ServerReply:
        return ServerReply(200 if path in replies else 404, replies.get(path))

    monkeypatch.setattr(Server, "call", call)
    for command, count in (("squeue", 2), ("sacct", 1)):
        found = json.loads(agenda(command, "-o", "json").stdout)
        assert len(found) == count
        jsonschema.validate(found, _schema(command))


def test_an_event() -> None:
    """What `watch` prints of a change of the Plan."""
    event = PlanEvent(EventPosition(3, 1), "accepted", 5000, "r", "ads", {"reason": "why"})
    jsonschema.validate(event.to_json(), _schema("watch"))


def test_tokens(tmp_path: Path) -> None:
    """A token that was made, and those that there are."""
    where = ("--database", f"sqlite:///{tmp_path / 'tokens.db'}", "-o", "json")
    for words in (("token", "create", "ann", "--tenant", "ads"), ("token", "list")):
        jsonschema.validate(json.loads(agenda(*words, *where).stdout), _schema(*words[:2]))


def test_no_command_that_prints_json_is_without_a_schema() -> None:
    """Whatever takes `-o json` is known to `agenda json-schema`."""
    assert {name for name, offered in _offering(main) if "json" in offered} == set(commands())


def _offering(group: click.Group, *before: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the commands below a group that have `-o`, with the forms it takes."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _offering(command, *before, name)
        elif command is not None:
            for one in command.params:
                if "-o" in one.opts and isinstance(one.type, click.Choice):
                    yield " ".join((*before, name)), one.type.choices


@pytest.mark.parametrize("command", commands())
def test_each_schema_is_one(command: str) -> None:
    """It is complete in itself and says its version; the command is one that there is."""
    schema = _schema(*command.split())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"].startswith(f"agenda:{JSON_VERSION}:")
    assert agenda(*command.split(), "--help").exit_code == DONE


def test_what_there_is() -> None:
    """Without a command the version and the commands, else a command's schema if it has one."""
    told = json.loads(agenda("json-schema").stdout)
    assert told == {"version": JSON_VERSION, "commands": commands()}
    shown = json.loads(agenda("json-schema", "reservations", "show").stdout)
    assert shown == _schema("reservations", "show")
    assert agenda("json-schema", "serve").exit_code == ERROR
