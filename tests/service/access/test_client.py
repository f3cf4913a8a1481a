"""The command line against a server that asks for tokens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from werkzeug.serving import make_server

from service.cli.kit.errors import ERROR, NOT_ALLOWED
from service.cli.kit.server import Server
from service.cli.main import main
from tests.service.access.walking import ATOM, Guarded, guarded
from tests.service.conftest import Open


@pytest.fixture
def server(open_service: Open) -> Guarded:
    """Return a service that asks for tokens."""
    return guarded(open_service, tick_s=0)


@pytest.fixture
def address(server: Guarded) -> Iterator[str]:
    """Serve it on a free port; return the URL."""
    serving = make_server("127.0.0.1", 0, server.service.app, threaded=True)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    thread.join()


def agenda(address: str, *words: str, **environment: str) -> Result:
    """Run a command of a client."""
    given = {"AGENDA_SERVER": address, **environment}
    return CliRunner().invoke(main, list(words), env=given, catch_exceptions=False)


def test_a_token_by_option_variable_or_file(server: Guarded, address: str, tmp_path: Path) -> None:
    """Each way is taken; the option wins over the file, and no output holds the secret."""
    secret, file, request = server.secrets["user"], tmp_path / "token", tmp_path / "job.rdl"
    file.write_text(f"{secret}\n")
    request.write_text(ATOM)
    for done in (
        agenda(address, "submit", str(request), "--token", secret),
        agenda(address, "submit", str(request), AGENDA_TOKEN=secret),
        agenda(address, "submit", str(request), "--token-file", str(file)),
        agenda(address, "reservations", "list", AGENDA_TOKEN_FILE=str(file), AGENDA_TOKEN=secret),
    ):
        assert done.exit_code == 0, done.output
        assert secret not in done.output
    listed = agenda(address, "audit", "-o", "jsonl", AGENDA_TOKEN=server.secrets["operator"])
    assert listed.stdout.count("\n") == 7  # three reservations, four tokens
    assert listed.stdout.count('"user": "ann"') == 3


def test_without_a_good_token_it_is_told_what_to_do(
    server: Guarded, address: str, tmp_path: Path
) -> None:
    """One line: what the server asks for, or why it does not take the token."""
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for done, code, said in (
        (agenda(address, "reservations", "list"), NOT_ALLOWED, "set AGENDA_TOKEN"),
        (
            agenda(address, "reservations", "list", AGENDA_TOKEN="agenda_wrong"),
            NOT_ALLOWED,
            "is unknown to this server",
        ),
        (
            agenda(address, "audit", AGENDA_TOKEN=server.secrets["user"]),
            NOT_ALLOWED,
            "for an operator",
        ),
        (
            agenda(address, "reservations", "list", "--token-file", str(tmp_path / "no")),
            ERROR,
            "cannot be read",
        ),
        (agenda(address, "reservations", "list", "--token-file", str(empty)), ERROR, "is empty"),
    ):
        assert (done.exit_code, said in done.stderr) == (code, True), done.stderr
        assert "agenda_" not in done.stderr


def test_a_token_is_never_shown_nor_sent_on() -> None:
    """It is not in the text of a Server, and who a server sends us on to is not told it."""
    seen: list[str | None] = []

    class SendsOn(BaseHTTPRequestHandler):
        """Sends every client on to another path."""

        def do_GET(self) -> None:
            """Note the header; send on from the first path."""
            seen.append(self.headers["Authorization"])
            self.send_response(302 if self.path == "/a" else 200)
            self.send_header("Location", "/b")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), SendsOn) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        server = Server(f"http://127.0.0.1:{http.server_port}", "secret")
        server.call("GET", "/a")
        http.shutdown()
        thread.join()
    assert seen == ["Bearer secret", None]
    assert "secret" not in repr(server)
