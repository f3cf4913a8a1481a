"""How commands end: one table for all, by command and situation (docs/cli.md)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agenda.connection import Reply
from service.cli.kit.errors import (
    AWAY,
    CONFLICT,
    DIFFER,
    DONE,
    ERROR,
    MEANINGS,
    NOT_ALLOWED,
    REFUSED,
    USAGE,
    ExitCode,
    code_of_several,
)
from service.cli.kit.server import Server, ServerReply
from tests.service.cli.command_line import agenda

#: What a server may answer, and how each command ends for it.
_ANSWERS = {
    (400, "malformed"): ERROR,
    (401, "unauthenticated"): NOT_ALLOWED,
    (403, "forbidden"): NOT_ALLOWED,
    (404, "not_found"): ERROR,
    (409, "capacity"): REFUSED,
    (422, "unsatisfiable"): REFUSED,
    (409, "conflict"): CONFLICT,
    (409, "duplicate_id"): CONFLICT,
    (409, "wrong_state"): CONFLICT,
    (412, "revision_mismatch"): CONFLICT,
    (428, "revision_required"): CONFLICT,
    (429, "too_many"): AWAY,
    (500, "internal"): AWAY,
    (503, "unavailable"): AWAY,
}

#: Commands of a client, with what each needs in front of its options.
_COMMANDS = (
    ("submit", "FILE"),
    ("reservations", "update", "x", "FILE"),
    ("reservations", "show", "x"),
    ("reservations", "cancel", "x"),
    ("reservations", "list"),
    ("reservations", "wait", "x"),
    ("offers", "FILE"),
    ("holds", "list"),
    ("apps", "list"),
    ("usage",),
    ("audit",),
    ("optimizations", "list"),
    ("optimizations", "apply", "x"),
    ("optimizations", "undo", "x"),
    ("outages", "list"),
    ("webhook", "list"),
)


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    """Return a file with a request that can be read."""
    path = tmp_path / "request.rdl"
    path.write_text("atom(<1 cpu>, 1, 1, 1m, 1m)")
    return path


def _words(command: tuple[str, ...], request_file: Path) -> list[str]:
    return [str(request_file) if word == "FILE" else word for word in command]


@pytest.mark.parametrize("command", _COMMANDS, ids=" ".join)
def test_a_command_ends_as_the_answer_says(
    command: tuple[str, ...], request_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the command, a script can show what to do next."""
    ended: dict[tuple[int, str], int] = {}
    for answer in _ANSWERS:
        status, word = answer
        body = {"title": word, "code": word, "detail": "no", "errors": []}
        reply = Reply(status, body, None)

        def call(self: Server, *_: Any, reply: Reply = reply, **__: Any) -> ServerReply:
            return self._shown(reply)

        monkeypatch.setattr(Server, "call", call)
        monkeypatch.setattr(Server, "once", call)
        ended[answer] = agenda(*_words(command, request_file)).exit_code
    assert ended == _ANSWERS


@pytest.mark.parametrize("command", _COMMANDS, ids=" ".join)
def test_a_server_that_is_not_there(command: tuple[str, ...], request_file: Path) -> None:
    """Nothing came back: it may be tried again."""
    done = agenda(*_words(command, request_file), "--server", "http://127.0.0.1:9")
    assert done.exit_code == AWAY


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("rdl", "check", "BAD"), ERROR),
        (("rdl", "format", "--check", "LONG"), DIFFER),
        (("rdl", "format", "--check", "GOOD"), DONE),
        (("rdl", "check", "nowhere.rdl"), USAGE),
        (("submit", "GOOD", "--nonsense"), USAGE),
        (("submit", "GOOD", "--server", "nonsense"), ERROR),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else str(int(one)),
)
def test_commands_on_files(words: tuple[str, ...], code: ExitCode, tmp_path: Path) -> None:
    """Malformed, a usage error and a difference are three things."""
    for name, text in (
        ("BAD", "atom(<1 cpu>"),
        ("GOOD", "atom(<1 cpu>, 1, 1, 1m, 1m)\n"),
        ("LONG", "atom( <1 cpu>,1,1,1m,1m)"),
    ):
        (tmp_path / name).write_text(text)
    named = [str(tmp_path / one) if one.isupper() else one for one in words]
    assert agenda(*named).exit_code == code


def test_several_answers_have_one_code() -> None:
    """A refusal among them is reported where nothing worse is."""
    assert code_of_several([]) == DONE
    assert code_of_several([DONE, REFUSED, DONE]) == REFUSED
    assert code_of_several([REFUSED, CONFLICT, ERROR]) == CONFLICT


def test_the_table_is_that_of_help_and_of_the_docs() -> None:
    """Each code once, with its meaning."""
    assert set(MEANINGS) == set(ExitCode)
    help_text = agenda("--help").stdout
    docs = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (\d+) \| ([^|;]+)", docs, re.MULTILINE)
    assert {int(code) for code, _ in table} == {int(code) for code in ExitCode}
    for code, meaning in MEANINGS.items():
        assert re.search(rf"^ +{int(code)}  {re.escape(meaning)}$", help_text, re.MULTILINE), code
