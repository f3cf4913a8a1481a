"""The client's side of HTTP: what is no server, no token or no request is reported in one line."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from service.cli.kit.errors import AWAY, DONE, ERROR, USAGE, CliError
from service.cli.kit.server import ServerReply, problem_text
from service.cli.reservations import allocation_rows, bodies_in, row_of, why_not
from tests.service.cli.command_line import agenda

RDL = "atom(<1 cpu>, 1, 1, 60, 60)"


RESERVATION = {
    "id": "a",
    "tenant": "ads",
    "queue": "default",
    "state": "accepted",
    "revision": 1,
    "submitted": 29.5,
    "submitted_at": "2026-03-29T00:30:29.5Z",
    "atoms": [{"path": "0", "bundle": {"cpu": 1}, "allocation": [[60, 3600, 2], [3600, 7200, 1]]}],
}


class Strange(BaseHTTPRequestHandler):
    """Answers by the path as servers do that are not Agenda, or are in trouble."""

    def do_GET(self) -> None:
        """Answer as the id says."""
        word = self.path.rsplit("/", 1)[-1]
        if word == "garbage":
            self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
            return
        self.send_response(502 if word == "proxy" else 500 if word == "text" else 200)
        raw = {"list": b"[1]", "text": b'"oops"', "short": b"{}"}.get(word, b"")
        self.send_header("Content-Length", str(len(raw) + 9 * (word == "short")))
        self.end_headers()
        self.wfile.write(raw)

    def do_POST(self) -> None:
        """Lose the first answer or half of it, have no time for the second, then tell it."""
        self.rfile.read(int(self.headers["Content-Length"]))
        asked = self.server.asked  # type: ignore[attr-defined]
        asked.append((self.path, self.headers["Idempotency-Key"]))
        if len(asked) % 3 == 1:
            if self.path == "/v1/applications":
                self.send_response(201)
                self.send_header("Content-Length", "99")
                self.end_headers()
                self.wfile.write(b"{")
            return
        raw = json.dumps(RESERVATION if len(asked) % 3 == 0 else {"code": "unavailable"}).encode()
        self.send_response(201 if len(asked) % 3 == 0 else 503)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


ASKED: list[tuple[str, str | None]] = []


@pytest.fixture(scope="module")
def strange() -> Iterator[str]:
    """A server that is none of ours; returns its URL. What is posted to it is in `ASKED`."""
    server = HTTPServer(("127.0.0.1", 0), Strange)
    server.asked = ASKED  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "url",
    ["", "ftp://h", "http://", "http://[::1", "http://h:port", "http://h:99999", "http://a b/",
     "http://\N{SNOWMAN}.example"],
)  # fmt: skip
def test_what_is_no_url_is_reported(url: str) -> None:
    """A URL that no request can be sent to is named, with one that works."""
    done = agenda("reservations", "list", "--server", url)
    assert done.exit_code == ERROR
    assert f"{url!r} is not a server's URL; write http://127.0.0.1:8080" in done.stderr


@pytest.mark.parametrize("token", ["two\nlines", "\N{SNOWMAN}", "a b"])
def test_a_token_that_no_header_carries_is_reported(token: str) -> None:
    """The message names the option and the variable, and does not repeat the secret."""
    done = agenda("reservations", "list", "--token", token)
    assert done.exit_code == ERROR
    assert "--token, AGENDA_TOKEN or --token-file" in done.stderr
    assert token not in done.stderr


@pytest.mark.parametrize(
    ("word", "code", "told"),
    [
        ("proxy", AWAY, "the server answered 502 Bad Gateway without saying why"),
        ("text", AWAY, "the server answered 500 Internal Server Error without saying why"),
        ("list", ERROR, "did not answer like an Agenda server"),
        ("garbage", ERROR, "did not answer in HTTP (BadStatusLine"),
        ("short", AWAY, "was lost during the answer"),
    ],
)
def test_strange_answers_are_reported(strange: str, word: str, code: int, told: str) -> None:
    """Whatever listens there, the client says what it got instead of breaking."""
    done = agenda("reservations", "show", word, "--server", strange)
    assert done.exit_code == code
    assert told in done.stderr


def test_this_machine_is_asked_past_a_proxy(strange: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy for the world outside does not stand between the client and loopback."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert "502 Bad Gateway" in agenda("reservations", "show", "proxy", "--server", strange).stderr


@pytest.mark.parametrize(
    ("command", "path", "content"),
    [
        (["submit"], "/v1/reservations", json.dumps({"rdl": RDL})),
        (["apps", "submit"], "/v1/applications", json.dumps({"components": []})),
    ],
)
def test_a_lost_answer_is_requested_again(
    strange: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    path: str,
    content: str,
) -> None:
    """A change whose answer is lost is sent again under its key, until it is reported."""
    monkeypatch.setattr("service.cli.kit.server._PAUSES_S", (0.0, 0.0, 0.0))
    file = tmp_path / "job.json"
    file.write_text(content)
    ASKED.clear()

    done = agenda(*command, file, "--server", strange, "-o", "json")

    assert (done.exit_code, len(ASKED), len(set(ASKED))) == (DONE, 3, 1)
    assert ASKED[0][0].partition("?")[0] == path
    assert ASKED[0][1]
    assert "trying again" in done.stderr


def test_a_level_is_sent_with_the_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--promise fills in what the file leaves out, and takes the words of levels only."""
    sent: list[Mapping[str, object]] = []

    def once(
        self: object, path: str, body: Mapping[str, object], query: object, key: object
    ) -> ServerReply:
        sent.append(body)
        return ServerReply(201, RESERVATION)

    monkeypatch.setattr("service.cli.kit.server.Server.once", once)
    file = tmp_path / "job.rdl"
    file.write_text(RDL)

    assert agenda("submit", file, "--promise", "pooled").exit_code == DONE
    assert [body["promise"] for body in sent] == ["pooled"]
    assert "pooled" in agenda("submit", file, "--promise", "certain").stderr


def test_a_server_that_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    """Nothing was sent, so nothing is open: the first refused connection is reported at once."""
    file = tmp_path / "job.rdl"
    file.write_text(RDL)
    done = agenda("submit", file, "--server", "http://127.0.0.1:9")
    assert (done.exit_code, "trying again" in done.stderr) == (AWAY, False)


def test_files_that_hold_no_request_are_reported(tmp_path: Path) -> None:
    """Bytes that are no text, and a file without anything, are not sent anywhere."""
    file = tmp_path / "job.rdl"
    file.write_bytes(b"atom(\xff")
    done = agenda("submit", file)
    assert (done.exit_code, "not UTF-8 text" in done.stderr) == (ERROR, True)
    file.write_text(" \n\n")
    done = agenda("submit", file)
    assert (done.exit_code, "nothing to submit" in done.stderr) == (ERROR, True)


def test_a_byte_order_mark_and_odd_line_ends_are_no_part_of_a_request(tmp_path: Path) -> None:
    """Editors write marks; a line separator inside a JSON string does not end the line."""
    file = tmp_path / "day.jsonl"
    lines = ['{"id": "a", "tenant": "x\u2028y", "rdl": "void"}\r\n', '{"id": "b", "rdl": "void"}\n']
    file.write_text("\ufeff" + "".join(lines), encoding="utf-8")
    assert [body["id"] for body in bodies_in(str(file))] == ["a", "b"]


def test_numbers_that_json_does_not_know_are_reported(tmp_path: Path) -> None:
    """NaN is refused where it stands, in an option and in a line."""
    file = tmp_path / "job.rdl"
    file.write_text(RDL)
    done = agenda("submit", file, "--weight", "nan")
    assert (done.exit_code, "not a finite number" in done.stderr) == (USAGE, True)
    file.write_text(f'{{"rdl": "{RDL}"}}\n{{"rdl": "{RDL}", "weight": NaN}}\n')
    with pytest.raises(CliError, match="line 2 is not a workload line"):
        list(bodies_in(str(file)))


def test_deep_json_is_passed_on_as_text(tmp_path: Path) -> None:
    """What the client cannot read the server judges, which says what is wrong with it."""
    file = tmp_path / "deep.json"
    file.write_text('{"all": [' * 5000)
    assert list(bodies_in(str(file))) == [{"rdl": file.read_text()}]


def test_people_are_shown_the_calendar_and_programs_seconds() -> None:
    """The Plan's origin is known to the server alone; a change of summer time moves no instant."""
    assert row_of(RESERVATION, calendar=True)[5:7] == ["2026-03-29 00:31", "2026-03-29 02:30"]
    assert row_of(RESERVATION, calendar=True, zone="Europe/Berlin")[5:7] == [
        "2026-03-29 01:31",
        "2026-03-29 04:30",
    ]
    assert row_of(RESERVATION | {"zone": "Europe/Berlin"}, calendar=True, zone=None)[5:7] == [
        "2026-03-29 01:31 +01:00",
        "2026-03-29 04:30 +02:00",
    ]
    assert row_of(RESERVATION, calendar=False)[5:7] == [60, 7200]
    assert [row[2:] for row in allocation_rows(RESERVATION)] == [
        ["2026-03-29 00:31", "2026-03-29 01:30", 2],
        ["2026-03-29 01:30", "2026-03-29 02:30", 1],
    ]


def test_what_is_wrong_with_text_is_shown_under_it() -> None:
    """Spans of an answer become lines with carets; what has none is told by its pointer, once."""
    text = "any(\n  atm(<1 cpu>))"
    entry = {"pointer": "/rdl", "span": [7, 10], "code": "malformed", "message": "no", "fix": None}
    document = {"title": "The request cannot be read", "detail": "no", "errors": [entry]}
    told = why_not({"rdl": text}, ServerReply(400, document))
    assert told.splitlines()[1:] == ["line 2, column 3: no", "      atm(<1 cpu>))", "      ^^^"]
    assert why_not({"rdl": {"atm": {}}}, ServerReply(400, document)).endswith("read: /rdl: no")


def test_a_wrong_parameter_is_named_by_its_option() -> None:
    """The query of the URL is not what was typed; the name is said once."""
    entry = {"pointer": "?from", "message": "from: 'now' is not a time", "fix": "write 2h"}
    text = problem_text({"title": "The request cannot be read", "detail": "", "errors": [entry]})
    assert text.splitlines()[-1].strip() == "--from: 'now' is not a time; write 2h"
