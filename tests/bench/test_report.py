"""The tables of docs/results are written from kept JSON by one command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.registry import BenchError, BenchResult
from bench.report import RESULTS, keep_run, pages, write_report

COLUMNS = [{"title": "agent", "align": "---"}, {"title": "took", "figure": "ms", "show": "{:,} ms"}]
OWN = {"command": "run it", "commit": "abc", "date": "2026-01-02", "columns": COLUMNS}


def _folder(folder: Path, *tables: Any, page: str | None = None) -> Path:
    """Write a page `speed.md` with data of these tables, named a, b, ...; return its folder."""
    (folder / "data").mkdir()
    named = dict(zip("abc", tables, strict=False))
    (folder / "data" / "speed.json").write_text(json.dumps(named))
    blocks = [f"<!-- table {name} -->\n<!-- end -->\n" for name in named]
    (folder / "speed.md").write_text(
        "# Speed\n\n" + "\nWords.\n".join(blocks) if page is None else page
    )
    return folder


def test_the_pages_of_results_are_what_the_command_writes() -> None:
    """Each page's tables equal their data: who changes one alone is told to run `--report`."""
    written = dict(pages())
    assert {path.stem for path in written} == {path.stem for path in RESULTS.glob("*.md")} - {
        "index",
        "papers",
    }
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: python -m bench --report"


def test_a_table_of_its_own_rows_says_where_they_are_from(tmp_path: Path) -> None:
    """Numbers are shown by the column's format, text as it is, null as a dash; words stay."""
    rows = [["gree", 1234], ["gree-l", None], ["*other*", "2 s"]]
    folder = _folder(tmp_path, OWN | {"rows": rows})
    assert write_report(folder) == [folder / "speed.md"]
    assert (folder / "speed.md").read_text() == (
        "# Speed\n\n<!-- table a -->\n| agent | took |\n|---|---:|\n| gree | 1,234 ms |\n"
        "| gree-l | – |\n| *other* | 2 s |\n<!-- end: run it; abc, 2026-01-02 -->\n"
    )
    assert write_report(folder) == []


def test_a_kept_run_gives_the_figures_of_a_table(tmp_path: Path) -> None:
    """What a case returned is found by its place, with the commit and the day of the run."""
    rows = [{"title": "gree", "at": "figures/gree"}]
    folder = _folder(tmp_path, {"run": "quick", "columns": COLUMNS, "rows": rows})
    machine = {"commit": "def", "date": "2026-03-04"}
    keep_run(BenchResult("quick", {}, {"gree": {"ms": 2500}}, machine), folder)
    write_report(folder)
    text = (folder / "speed.md").read_text()
    assert "| gree | 2,500 ms |\n<!-- end: python -m bench quick; def, 2026-03-04 -->" in text


@pytest.mark.parametrize(
    ("table", "page", "said"),
    [
        (OWN | {"rows": [["gree", 1]]}, "# no table", "differ in their tables: a"),
        (OWN | {"rows": [["gree"]]}, None, "table a: ValueError"),
        ({"columns": COLUMNS, "rows": []}, None, "table a: KeyError"),
        ({"run": "none", "columns": COLUMNS, "rows": []}, None, "none.json"),
    ],
)
def test_what_does_not_fit_is_reported(
    tmp_path: Path, table: Any, page: str | None, said: str
) -> None:
    """A table without its page, a row too short, no origin, no run: the message says which."""
    with pytest.raises(BenchError, match=said):
        write_report(_folder(tmp_path, table, page=page))
