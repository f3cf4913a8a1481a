"""What a shell completes with a server's help, and where its lines are written."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from agenda.connection import Connection, Reply
from service.cli.kit.errors import DONE, ERROR
from service.cli.main import main
from tests.service.cli.command_line import agenda
from tests.service.conftest import Service


def _completed(*words: str) -> list[str]:
    """Return what the last of some words is completed to."""
    *before, begun = words
    shell = ShellComplete(main, {}, "agenda", "_AGENDA_COMPLETE")
    return [item.value for item in shell.get_completions(list(before), begun)]


@pytest.fixture
def served(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """Return a server with two reservations, which connections reach without a socket."""

    def call(_: Connection, method: str, path: str, *__: object) -> Reply:
        answer = service.client.open(path, method=method)
        return Reply(answer.status_code, answer.get_json(), None)

    monkeypatch.setattr(Connection, "call", call)
    service.reserve("nightly")
    service.reserve("nights")
    return service


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("reservations", "show", "night"), ["nightly", "nights"]),
        (("reservations", "cancel", "nightl"), ["nightly"]),
        (("reservations", "watch", "x"), []),
        (("reservations", "list", "--state", "c"), ["completed", "cancelled"]),
        (("apps", "list", "--state", "ru"), ["running"]),
        (("reservations", "list", "--tenant", "d"), ["default"]),
        (("usage", "--server", "http://h", "--o"), ["--output"]),
    ],
)
@pytest.mark.usefixtures("served")
def test_words_are_completed(words: Sequence[str], completed: list[str]) -> None:
    """Ids and queues of the server, states that there are, and options."""
    assert _completed(*words) == completed


def test_a_server_that_is_unavailable_completes_nothing() -> None:
    """No error in the middle of a line that someone types."""
    assert _completed("reservations", "show", "--server", "http://127.0.0.1:9", "n") == []


@pytest.mark.parametrize(
    ("shell", "place"),
    [
        ("bash", ".local/share/bash-completion/completions/agenda"),
        ("zsh", ".zfunc/_agenda"),
        ("fish", ".config/fish/completions/agenda.fish"),
    ],
)
def test_lines_are_written_where_a_shell_looks(
    shell: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written is what is shown; the shell is the one that SHELL names."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    done = agenda("completion", "install")
    assert (done.exit_code, done.stdout) == (DONE, f"{tmp_path / place}\n")
    assert (tmp_path / place).read_text() == agenda("completion", "show", shell).stdout


def test_bash_takes_the_lines(tmp_path: Path) -> None:
    """They are read without an error, and complete `agenda`."""
    lines = tmp_path / "lines"
    lines.write_text(agenda("completion", "show", "bash").stdout)
    done = subprocess.run(
        ["bash", "-c", f". {lines}; complete -p agenda"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()[-1]) == (0, "agenda"), done.stderr


def test_another_shell_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of three must be given where SHELL names none of them."""
    monkeypatch.setenv("SHELL", "/bin/dash")
    done = agenda("completion", "show")
    assert (done.exit_code, "bash, zsh, fish" in done.stderr) == (ERROR, True)


def test_help_lists_each_command_once_in_a_section() -> None:
    """No command stands twice, and none outside a section."""
    lines = agenda("--help").stdout.splitlines()
    named = [line.split()[0] for line in lines if line.startswith("  ") and line[2:3].isalpha()]
    commands = main.list_commands(click.Context(main))
    assert [name for name in named if name in commands] == commands
