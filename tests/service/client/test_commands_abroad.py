"""Commands of a client where the server is unavailable, is another, or has more than is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agenda.retries import Retries
from service.cli.kit.errors import AWAY, DONE, ERROR, CliError
from service.cli.kit.server import Server, ServerReply
from tests.service.cli.command_line import agenda
from tests.service.cli.terminal import on_terminal
from tests.service.client.stand_in import FixedAnswer, answering

OTHER_JSON = FixedAnswer(body=b'{"hello": 1}', headers={"Content-Type": "application/json"})


def test_waiting_does_not_wait_for_a_server_that_was_never_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mistake in the URL is reported at once, as by every other command."""
    pauses: list[float] = []
    patient = Retries(pause=pauses.append)
    monkeypatch.setattr("service.cli.reservations.Retries", lambda: patient)
    done = agenda("reservations", "wait", "nightly", "--server", "http://127.0.0.1:9")
    assert done.exit_code == AWAY
    assert "is `agenda serve` running?" in done.output
    assert not pauses


@pytest.mark.parametrize(
    "words", [("list",), ("show", "a"), ("submit", "FILE"), ("cancel", "a"), ("wait", "a")]
)
def test_another_server_is_reported_by_a_message(words: tuple[str, ...], tmp_path: Path) -> None:
    """No traceback, and no row of dashes that looks like a success."""
    file = tmp_path / "job.rdl"
    file.write_text("atom(<1 cpu>, 1, 1, 60, 60)")
    with answering(OTHER_JSON) as (url, _):
        given = [str(file) if word == "FILE" else word for word in words]
        done = agenda("reservations", *given, "--server", url)
    assert done.exit_code == ERROR
    assert "Agenda server?" in done.output


def test_a_list_that_is_cut_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever sees the first entries is reported that there are more, apart from the answer."""
    monkeypatch.setattr(
        Server, "call", lambda *_, **__: ServerReply(200, {"numbers": [{}, {}], "next": "2"})
    )
    assert len(Server().list_all("/numbers", "numbers", {}, 2)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "the first 2" in shown.err


def test_usage_from_before_the_origin_begins_there(address: str) -> None:
    """A time before the server's Plan is no error in a parameter that no one gave."""
    done = agenda("usage", "--from", "2020-01-01T00:00:00Z", "--server", address)
    assert done.exit_code == DONE, done.output


def test_answers_keep_their_times_on_a_terminal_of_80_columns(address: str, tmp_path: Path) -> None:
    """Columns that do not fit give way; the instants stand whole, and no line is longer."""
    file = tmp_path / "job.rdl"
    file.write_text("window(atom(<1 cpu>, 1, 1, 60, 60), +10m, +30m)")
    submit = ("submit", str(file), "--id", "narrow-terminal", "--server", address)
    code, written = on_terminal("reservations", *submit, columns=80)
    assert code == DONE
    assert len(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d", written)) == 2
    assert all(len(line) <= 80 for line in written.splitlines())
    agenda("reservations", "cancel", "narrow-terminal", "--server", address)


def test_first_lines_of_usage_and_helps_of_verbs_fit_80_columns(address: str) -> None:
    """Neither a title nor the list of verbs is cut or wrapped."""
    usage = agenda("usage", "--server", address).output.splitlines()
    assert all(len(line) <= 80 for line in usage[:2])
    assert "..." not in agenda("cluster", "--help").output.partition("Commands:")[2]


def test_a_list_that_is_watched_outlasts_a_server_that_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It shows what is wrong and looks again, if it was there at first."""
    page = ServerReply(200, {"reservations": [], "next": None})
    answers = iter((page, CliError("no answer"), page))

    def call(_server: Server, _method: str, path: str, **_: object) -> ServerReply:
        if path == "/v1/status":  # nothing is wrong with the cluster
            return ServerReply(200, {"attention": []})
        answer = next(answers, KeyboardInterrupt())
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(Server, "call", call)
    done = agenda("reservations", "list", "--watch", "0.1")
    assert done.stdout.splitlines() == ["no reservations"] * 2
    assert "no answer" in done.stderr
