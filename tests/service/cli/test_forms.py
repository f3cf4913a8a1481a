"""Forms of a list: which columns, in which order, how wide, in which language, how often."""

from __future__ import annotations

import json
from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner, Result

from service.cli.kit.errors import USAGE
from service.cli.kit.output import ListColumn, listing_options, print_csv, print_listing, table_text

HEADER = ("id", ListColumn("cpu", "cpu (cores)"), ListColumn("queue", is_wide=True))
ROWS = [["b", 9, "q"], ["a", 10, "p"], ["c", None, "r"]]
BODY = {"version": 1, "entries": [{"id": "b"}, {"id": "a"}, {"id": "c"}]}


@click.command()
@listing_options()
def listing(form: str) -> None:
    """List three entries."""
    print_listing(BODY, HEADER, ROWS, form, title="3 entries")


def shown(*options: str) -> Result:
    """Return what the list prints under options."""
    return CliRunner().invoke(listing, options)


def test_a_table_has_a_first_line_units_and_what_is_narrow() -> None:
    """What is wide is left out until it is requested; CSV has all, under the plain names."""
    assert shown().stdout.splitlines() == [
        "3 entries", "", "id  cpu (cores)", "b             9", "a            10", "c             –",
    ]  # fmt: skip
    assert shown("-o", "wide").stdout.splitlines()[2] == "id  cpu (cores)  queue"
    assert shown("-o", "csv").stdout.splitlines()[:2] == ["id,cpu,queue", "b,9,q"]


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd", "'+cmd"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\tx", "'\tx"),
        ("\r=1", '"\'\r=1"'),
        ("a\r=1", '"a\r=1"'),
        ("-1.5", "-1.5"),
        ("+12%", "+12%"),
        (-3, "-3"),
        ("a=b", "a=b"),
        (None, '""'),
    ],
)
def test_no_cell_of_csv_is_a_formula(
    cell: object, written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a spreadsheet would compute is text; numbers stay numbers."""
    print_csv(["x"], [[cell]])
    assert capsys.readouterr().out.split("\n", 1)[1] == f"{written}\n"


def test_columns_and_order_are_as_asked() -> None:
    """Numbers are ordered as numbers, entries without one last; a document follows the order."""
    assert shown("-o", "csv", "--columns", "queue,id", "--sort", "cpu").stdout.splitlines() == [
        "queue,id", "q,b", "p,a", "r,c",
    ]  # fmt: skip
    assert shown("-o", "csv", "--sort", "-cpu", "--no-headers").stdout == "a,10,p\nb,9,q\nc,,r\n"
    ordered = json.loads(shown("-o", "json", "--sort", "id").stdout)
    assert [one["id"] for one in ordered["entries"]] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--columns", "quue"), "write queue"),
        (("--sort", "size"), "id, cpu, queue"),
        (("-o", "json", "--columns", "id"), "json always has all columns"),
    ],
)
def test_a_column_that_is_not_there_is_reported(options: tuple[str, ...], said: str) -> None:
    """The message names the nearest, or all."""
    done = shown(*options)
    assert (done.exit_code, said in done.stderr) == (USAGE, True), done.stderr


def test_watch_shows_it_again_until_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pause is as long as was asked; ^C ends it in peace."""
    pauses: list[float] = []

    def sleep(pause_s: float) -> None:
        pauses.append(pause_s)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("service.cli.kit.output.time.sleep", sleep)
    done = shown("--watch", "0.5", "-o", "csv", "--no-headers", "--columns", "id")
    assert (done.exit_code, done.stdout, pauses) == (0, "b\na\nc\n" * 2, [0.5, 0.5])


def test_a_table_is_cut_to_the_terminal() -> None:
    """The widest texts are cut, the first column and numbers never."""
    rows = [["an-id-that-is-to-be-copied", "x" * 60, 123456, "y" * 30]]
    lines = table_text(("id", "what", "n", "why"), rows, width=80).splitlines()
    assert max(map(len, lines)) == 80
    assert lines[1].startswith("an-id-that-is-to-be-copied  xxx")
    assert "…  123,456  yyyy" in lines[1]
    assert "x" * 60 in table_text(("id", "what", "n", "why"), rows)


@pytest.fixture
def coloured(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Return whether a state has a colour on a terminal, under variables of the environment."""
    from service.cli.kit.output import has_colour

    def asked(**variables: str) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout.isatty", lambda: True)
            for name in ("NO_COLOR", "TERM"):
                patch.delenv(name, raising=False)
            for name, value in variables.items():
                patch.setenv(name, value)
            return has_colour()

    return asked


def test_states_have_colours_on_a_terminal_that_has_some(coloured: Callable[..., bool]) -> None:
    """Refusals are red there; NO_COLOR and a dumb terminal are obeyed, and widths count letters."""
    assert coloured(TERM="xterm")
    assert not coloured(TERM="xterm", NO_COLOR="1")
    assert not coloured(TERM="dumb")
    plain, red = (
        table_text(("state", "id"), [["refused", "a"]], colour=colour) for colour in (False, True)
    )
    assert "\x1b[31mrefused" in red
    assert click.unstyle(red) == plain


def test_wide_letters_take_two_columns_and_marks_none() -> None:
    """Names of users may be of any script: the column after them stays straight."""
    rows = [["🚀 rocket", 1], ["計画計画", 22], ["e\u0301te", 3], ["plain name", 4]]
    lines = table_text(("tenant", "n"), rows).splitlines()
    wide = [0, 1, 4, 1, 0]  # wide letters of each line, less its marks
    wide[3] = -1
    assert [len(line) + more for line, more in zip(lines, wide, strict=True)] == [14] * 5
    cut = table_text(("id", "why"), [["a", "計" * 30]], width=20).splitlines()[1]
    assert cut == f"a   {'計' * 7}…"
