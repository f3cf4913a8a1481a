"""Tables of docs/results, written from the JSON kept in docs/results/data.

A page says ``<!-- table NAME -->``; what follows, up to ``<!-- end ... -->``, is written by
``python -m bench --report`` from the table of that name in ``data/PAGE.json``. Words around it are
the author's.

A table has ``columns`` and ``rows``. A column has a ``title``, and may have a format (``show``,
``"{:.2f} ± {:.2f}"``) and the Markdown of its ``align``. A row is a list of cells: a text as it is,
null, a number, or a list of numbers for a format of several. With a ``run``, a row may instead be a
``title`` and the place ``at`` which the kept run ``data/runs/RUN.json`` has the ``figure`` of each
other column; ``python -m bench CASE --keep`` writes such a file. Without one, the table says the
``command``, ``commit`` and ``date`` of its figures itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.registry import BenchError, BenchResult

#: Where the pages stand; their data is in the folder ``data`` next to them.
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"

_BLOCK = re.compile(r"^<!-- table (\S+) -->\n.*?^<!-- end\b.*?-->$", re.MULTILINE | re.DOTALL)


def keep_run(result: BenchResult, folder: Path = RESULTS) -> Path:
    """Keep a run as the one that tables are written from; return its file."""
    path = folder / "data" / "runs" / f"{result.case}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result.to_json(), indent=1) + "\n", encoding="utf-8")
    return path


def write_report(folder: Path = RESULTS) -> list[Path]:
    """Write the tables of every page again; return the pages that changed."""
    changed = []
    for path, text in pages(folder):
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def pages(folder: Path = RESULTS) -> Iterator[tuple[Path, str]]:
    """Yield each page of `folder` that has data, with the text that it should have.

    Raises
    ------
    BenchError
        If a page and its data name different tables, or a figure of a table is not there.
    """
    for data in sorted((folder / "data").glob("*.json")):
        page = folder / f"{data.stem}.md"
        tables: dict[str, Any] = _read(data)
        text = page.read_text(encoding="utf-8")
        named = [match[1] for match in _BLOCK.finditer(text)]
        if sorted(named) != sorted(tables):
            odd = ", ".join(sorted(set(named) ^ set(tables))) or "one of them twice"
            raise BenchError(f"{page.name} and data/{data.name} differ in their tables: {odd}")
        for name, table in tables.items():
            start, end = next(one.span() for one in _BLOCK.finditer(text) if one[1] == name)
            text = text[:start] + _block(name, table, folder) + text[end:]
        yield page, text


def _read(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchError(f"{path}: {error}") from error
    assert isinstance(read, dict)
    return read


def _block(name: str, table: Mapping[str, Any], folder: Path) -> str:
    """Return a table between its marks; the second says which run the figures are of."""
    origin, run = table, {}
    if "run" in table:
        run = _read(folder / "data" / "runs" / f"{table['run']}.json")
        origin = {"command": f"python -m bench {run['case']}", **run["machine"]}
    try:
        columns = table["columns"]
        lines = [
            _line([column["title"] for column in columns]),
            "|" + "|".join(column.get("align", "---:") for column in columns) + "|",
            *(_line(_cells(row, columns, run)) for row in table["rows"]),
        ]
        end = f"<!-- end: {origin['command']}; {origin['commit']}, {origin['date']} -->"
    except (LookupError, ValueError, TypeError) as error:
        raise BenchError(f"table {name}: {error!r}") from error
    return "\n".join([f"<!-- table {name} -->", *lines, end])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Any, columns: Sequence[Mapping[str, str]], run: Mapping[str, Any]) -> list[str]:
    """Return the cells of a row: a list of values, or a title and a place in the kept run."""
    values = row
    if isinstance(row, Mapping):
        place = _at(run, row["at"])
        values = [row["title"], *(_at(place, column["figure"]) for column in columns[1:])]
    pairs = zip(columns, values, strict=True)
    return [_cell(column.get("show", "{}"), value) for column, value in pairs]


def _at(run: Any, path: str) -> Any:
    """Return the value at a path of keys, ``gree/batch/accepted``."""
    for key in path.split("/"):
        run = run[key]
    return run


def _cell(show: str, value: object) -> str:
    """Return a cell: text as it is, a dash for None, else by the format of its column."""
    match value:
        case None:
            return "–"
        case str():
            return value
        case list():
            return show.format(*value)
        case _:
            # Python's own format of per cent has no space before the sign, the pages have.
            return re.sub(r"(?<=\d)%", " %", show.format(value))
