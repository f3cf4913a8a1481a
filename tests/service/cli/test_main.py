"""The command line's frame: quick help, exit codes, one answer on standard output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from service.cli.kit.errors import INTERRUPTED, STOPPED, USAGE, CliError, as_cli_error
from service.cli.kit.groups import AgendaGroup, LazyCommand
from service.cli.kit.options import duration, names, span
from service.cli.kit.output import table_text
from service.cli.main import PARTS
from service.importers.lines import TraceError
from tests.service.cli.command_line import agenda

HEAVY = ("numpy", "numba", "matplotlib", "scipy", "sqlalchemy", "flask", "ortools", "highspy")


#: `agenda` in a process of its own, as a user runs it.
AGENDA = (sys.executable, "-c", "import sys; from service.cli.main import main; main()")


def agenda_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `agenda` in a process of its own."""
    return subprocess.run([*AGENDA, *arguments], capture_output=True, text=True, check=False)


def test_a_command_is_read_without_what_only_its_work_needs() -> None:
    """Help, completion and usage errors do not wait for NumPy, a solver or a database."""
    names = (
        "status submit reservations apps audit token backup validate plan compare optimize "
        "optimizations import lotes rdl serve sbatch"
    )
    commands = [[], *([name] for name in names.split())]
    code = (
        "import sys\nfrom service.cli.main import main\n"
        f"for command in {commands!r}:\n"
        "    try: main([*command, '--help'])\n"
        "    except SystemExit: pass\n"
        f"    print(command, {{*{HEAVY!r}}} & {{*sys.modules}} or 'nothing heavy', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [f"{command} nothing heavy" for command in commands]


def test_help_names_every_command() -> None:
    """Help lists all commands with their line, without importing them."""
    shown = agenda("--help").output
    for part in PARTS:
        assert f"{part.name} " in shown
        assert part.help in " ".join(shown.split())


@pytest.mark.parametrize(
    ("words", "nearest"), [(("reservation",), "reservations"), (("reservations", "lst"), "list")]
)
def test_a_command_that_is_not_there_is_reported_with_the_nearest(
    words: tuple[str, ...], nearest: str
) -> None:
    """As of options: a usage error that says what was meant."""
    done = agenda(*words)
    assert (done.exit_code, f"Did you mean '{nearest}'?" in done.stderr) == (USAGE, True)


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("agenda reservations wa", "plain,wait plain,watch"),
        ("agenda plan c w --agent headr", "plain,headroom"),
        ("agenda compare c w --agents gree,earl", "plain,gree,earliest"),
    ],
)
def test_a_shell_completes_commands_and_agents(words: str, completed: str) -> None:
    """What the lines of README make of a word that is begun."""
    variables = {
        "_AGENDA_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    code = "from service.cli.main import main; main(prog_name='agenda')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == completed.split(), done.stderr


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_command_can_be_loaded_and_explains_itself(part: LazyCommand) -> None:
    """Each name in the table leads to a command whose own help works."""
    done = agenda(part.name, "--help")
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"Usage: main {part.name}")


@pytest.mark.parametrize(
    "arguments", [["nope"], ["plan"], ["plan", "/none", "/none"], ["import", "swim", "--step", "x"]]
)
def test_misuse_exits_with_2(arguments: Sequence[str]) -> None:
    """Unknown commands, missing arguments and unreadable values are usage errors."""
    done = agenda_process(*arguments)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert "Error" in done.stderr


def test_an_interrupt_exits_with_4_and_says_that_nothing_was_written() -> None:
    """^C outside a run that can keep its best so far ends with code 4."""

    @click.group(cls=AgendaGroup)
    def group() -> None:
        """A group."""

    @group.command()
    def wait() -> None:
        """Be interrupted."""
        raise KeyboardInterrupt

    done = CliRunner().invoke(group, ["wait"])
    assert done.exit_code == STOPPED
    assert "nothing was written" in done.stderr


def test_an_interrupt_before_the_command_began_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """^C while a command is imported: 130 and one line, as for any program that had not begun."""
    (tmp_path / "agenda_slow_import.py").write_text("raise KeyboardInterrupt\n")
    monkeypatch.syspath_prepend(tmp_path)

    @click.group(cls=AgendaGroup, parts=(LazyCommand("slow", "agenda_slow_import:slow", "Slow."),))
    def group() -> None:
        """A group."""

    done = CliRunner().invoke(group, ["slow"])
    assert (done.exit_code, done.stderr) == (INTERRUPTED, "agenda: stopped before it began\n")


def test_an_interrupt_while_the_frame_is_read_is_one_line() -> None:
    """^C before the table of commands is there: the same, without a traceback."""
    code = (
        "import sys\n"
        "class Interrupts:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "from service.cli.main import main\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (INTERRUPTED, "agenda: stopped before it began\n")


def test_only_bad_input_becomes_a_message() -> None:
    """Agenda's own errors are reported; a ValueError of anyone else is a fault and stays one."""
    with pytest.raises(CliError, match="x: line 1"), as_cli_error("x"):
        raise TraceError("line 1: broken")
    with pytest.raises(ValueError, match="a fault"), as_cli_error("x"):
        raise ValueError("a fault")


def test_a_closed_pipe_is_no_traceback() -> None:
    """`agenda ... | head` ends quietly."""
    code = "from service.cli.main import main; main()"
    line = f"{sys.executable} -c '{code}' --help | true"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_tables_align_numbers_right_and_text_left() -> None:
    """Columns are as wide as their widest cell; None is a dash."""
    shown = table_text(("name", "count"), [["a", 1234], ["longer", None]])
    assert shown == "name    count\na       1,234\nlonger      –\n"


def test_option_values_are_read_as_agenda_reads_them() -> None:
    """Durations, ranges and lists have one reader, and say what would be right."""
    assert duration("1h30m") == 5_400_000
    assert span("0.1..3") == (0.1, 3.0)
    assert span("2") == (2.0, 2.0)
    assert names("a, b") == ("a", "b")
    for reader, value in ((duration, "0"), (span, "3..1"), (span, "x"), (names, "a,,b")):
        with pytest.raises(click.BadParameter):
            reader(value)  # type: ignore[operator]


def test_tables_show_names_that_would_steer_a_terminal_escaped() -> None:
    """A name with a line feed keeps its row, one with an escape clears no screen, text stays."""
    shown = table_text(("id",), [["a\nb"], ["\x1b[2J"], ["\u202ex"], ["Zoë é"]])
    assert shown.splitlines() == ["id", "a\\nb", "\\x1b[2J", "\\u202ex", "Zoë é"]


def test_answers_in_files_are_utf8_in_every_locale(tmp_path: Path) -> None:
    """A locale without the dash of empty cells, or an id's letters, ends no answer."""
    cluster, workload = tmp_path / "c.toml", tmp_path / "w.jsonl"
    cluster.write_text(
        'step = "60s"\nhorizon = "1h"\n[[machines]]\nname = "m"\ncount = 1\n'
        "resources = { cpu = 1 }\n"
    )
    workload.write_text('{"id": "Zoë", "rdl": "atom(<1 cpu>, 1, 1, 9m, 9m)"}\n', encoding="utf-8")
    done = subprocess.run(
        [*AGENDA, "plan", cluster, workload, "-o", "csv"],
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert done.stdout.decode("utf-8").splitlines()[1].startswith("Zoë,")
