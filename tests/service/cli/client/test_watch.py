"""`agenda watch` and `agenda webhook`: events as lines, and who is notified of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agenda.connection import Connection
from agenda.event_stream import EventStream
from service.cli.kit.errors import AWAY, DONE, ERROR, USAGE
from service.cli.kit.server import Server, ServerReply
from tests.service.cli.command_line import agenda
from tests.service.conftest import Service


def told(number: int) -> bytes:
    """Return an event."""
    body = {"id": f"1.{number}", "kind": "accepted", "reservation": f"r{number}", "tenant": "ads"}
    return f"id: 1.{number}\nevent: accepted\ndata: {json.dumps(body)}\n\n".encode()


class Broken(BaseHTTPRequestHandler):
    """Tells a piece of two and a half events to each who comes, behind the last it has."""

    def do_GET(self) -> None:
        """Stream, unless a problem is requested."""
        asked = self.server.asked  # type: ignore[attr-defined]
        last = self.headers["Last-Event-ID"]
        asked.append((self.path, last))
        if "tenant=nobody" in self.path or len(asked) == 2:
            raw = b'{"code": "too_many", "title": "Too many", "detail": "come back"}'
            self.send_response(429)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        first = 0 if last is None else int(last.partition(".")[2]) + 1
        self.wfile.write(b":\n\n" + told(first) + told(first + 1) + told(first + 2)[:20])

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def broken() -> Iterator[ThreadingHTTPServer]:
    """Return a server whose streams break off."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Broken)
    server.asked = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_stream_that_breaks_off_is_taken_up_behind_its_last_event(
    broken: ThreadingHTTPServer,
) -> None:
    """Every event once, however often the server is unavailable or full in between."""
    connection = Connection(f"http://127.0.0.1:{broken.server_port}")
    events = iter(EventStream(connection, {}, pause=lambda _: None))
    found = [next(events).reservation for _ in range(6)]
    assert found == [f"r{number}" for number in range(6)]
    lasts = [last for _, last in broken.asked]  # type: ignore[attr-defined]
    assert lasts == [None, "1.1", "1.1", "1.3"]


def test_a_server_that_refuses_or_is_not_there_is_an_error(broken: ThreadingHTTPServer) -> None:
    """At first nothing is waited for: the command says what is wrong."""
    url = f"http://127.0.0.1:{broken.server_port}"
    refused = agenda("watch", "--server", url, "--tenant", "nobody")
    assert (refused.exit_code, "come back" in refused.stderr) == (AWAY, True)
    away = agenda("watch", "--server", "http://127.0.0.1:9")
    assert (away.exit_code, "is `agenda serve` running" in away.stderr) == (AWAY, True)
    assert agenda("watch", "--server", url, "--wait", "soon").exit_code == USAGE


@pytest.mark.parametrize("form", ["table", "json"])
def test_events_are_lines(broken: ThreadingHTTPServer, form: str) -> None:
    """One line an event, in either form; the filters are the server's."""
    url = f"http://127.0.0.1:{broken.server_port}"
    result = agenda(
        "watch", "--server", url, "--wait", "0.3s", "--kind", "accepted", "--kind", "ended",
        "--after", "7", "-o", form,
    )  # fmt: skip
    assert result.exit_code == DONE
    lines = result.stdout.splitlines()
    assert len(lines) == 2
    if form == "json":
        assert [json.loads(line)["id"] for line in lines] == ["1.0", "1.1"]
    else:
        assert lines[0].split() == ["1.0", "-", "accepted", "r0", "(ads)"]
    path = broken.asked[0][0]  # type: ignore[attr-defined]
    assert "kinds=accepted%2Cended" in path
    assert "after=7" in path
    assert "wait=0." in path


@pytest.fixture
def served(still: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """Let commands call a service of this process."""

    def call(
        _self: Server,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ServerReply:
        del query, headers
        sent: dict[str, Any] = {} if body is None else {"json": body}
        answer = still.client.open(path, method=method, **sent)
        return ServerReply(answer.status_code, answer.get_json(silent=True))

    monkeypatch.setattr(Server, "call", call)
    return still


@pytest.mark.usefixtures("served")
def test_webhooks_are_created_listed_tried_and_deleted() -> None:
    """Each command does what the call of its name does; the secret is shown once."""
    made = agenda("webhook", "create", "https://example.org/x", "--kind", "ended", "--lead", "60")
    assert made.exit_code == DONE
    assert "whsec_" in made.stdout
    listed = json.loads(agenda("webhook", "list", "-o", "json").stdout)["webhooks"]
    (one,) = listed
    assert (one["url"], one["kinds"], one["lead"]) == ("https://example.org/x", ["ended"], 60)
    assert "https://example.org/x" in agenda("webhook", "list").stdout
    assert agenda("webhook", "test", one["id"]).exit_code == DONE
    shown = agenda("webhook", "show", one["id"])
    assert (shown.exit_code, "whsec_" in shown.stdout) == (DONE, False)
    assert agenda("webhook", "delete", one["id"]).exit_code == DONE
    assert agenda("webhook", "list").stdout == "no webhooks\n"
    assert agenda("webhook", "delete", one["id"]).exit_code == ERROR
    refused = agenda("webhook", "create", "http://127.0.0.1/")
    assert (refused.exit_code, "--webhook-network" in refused.stderr) == (ERROR, True)


def test_a_command_is_run_for_each_event(broken: ThreadingHTTPServer, tmp_path: Path) -> None:
    """With its message, and whose it is; one that fails ends nothing."""
    script, said = tmp_path / "notify", tmp_path / "said"
    script.write_text(
        f'#!/bin/sh\necho "$1 $AGENDA_KIND $AGENDA_TENANT $AGENDA_RESERVATION: $(cat)" >> {said}\n'
        'test "$AGENDA_RESERVATION" != r0\n'
    )
    script.chmod(0o755)
    url = f"http://127.0.0.1:{broken.server_port}"
    found = agenda("watch", "--server", url, "--wait", "0.3s", "--run", f"{script} to")
    assert found.exit_code == DONE
    assert said.read_text().splitlines() == [
        f"to accepted ads r{number}: reservation r{number} of tenant ads was accepted"
        for number in (0, 1)
    ]
    assert f"--run: {script} ended with 1 for event 1.0" in found.stderr
    assert "for event 1.1" not in found.stderr


def test_a_command_that_is_not_there_is_an_error_at_the_start() -> None:
    """Not at the first event, perhaps days later."""
    found = agenda("watch", "--run", "no-such-command x")
    assert (found.exit_code, "no command 'no-such-command'" in found.stderr) == (ERROR, True)
