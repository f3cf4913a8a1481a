"""One HTML page that needs nothing else: paragraphs, tables and skylines inline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from service.pictures.skyline import skyline_svg
from service.pictures.skyline_data import common_axes
from service.pictures.style import cell_text

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff;
       margin: 2rem auto; max-width: 84rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .25rem .9rem; border-bottom: 1px solid #ddd; text-align: left; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
tr.base { background: #f4f6f8; }
svg { width: 100%; height: auto; }
.note { color: #666; }
.wide { overflow-x: auto; }
.beside { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr));
          gap: 1rem; }
.beside figure { margin: 0; }
details { margin: .5rem 0; }
summary { cursor: pointer; font-weight: 600; }
@media (max-width: 40rem) {
  body { margin: 1rem auto; }
  thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  tbody, tr, td { display: block; }
  tr { border-bottom: 1px solid #bbb; padding: .5rem 0; }
  td, td.number { display: flex; justify-content: space-between; gap: 1rem; border: 0;
                  padding: .1rem .5rem; text-align: right; }
  td::before { content: attr(data-name); color: #555; text-align: left; }
}
@media (prefers-color-scheme: dark) {
  body { color: #e6e9ec; background: #14181c; }
  th, td { border-color: #3a424a; }
  tr.base { background: #20272e; }
  svg { background: #fff; border-radius: 6px; filter: invert(.92) hue-rotate(180deg); }
  .note, td::before { color: #aab4bd; }
}
"""

#: Rows of a long table that a page still shows well.
MOST_ROWS = 200


def table_html(
    header: Sequence[str], rows: Sequence[Sequence[object]], *, base: int | None = None
) -> str:
    """Return a table; numbers stand to the right, row `base` is marked, long tables are cut."""
    numeric = [
        any(isinstance(row[column], int | float) for row in rows) for column in range(len(header))
    ]
    kind = [' class="number"' if right else "" for right in numeric]
    head = "".join(f"<th{k}>{escape(name)}</th>" for k, name in zip(kind, header, strict=True))
    lines = [f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>']
    for number, row in enumerate(rows[:MOST_ROWS]):
        cells = "".join(
            f'<td{k} data-name="{escape(name)}">{escape(cell_text(value))}</td>'
            for k, name, value in zip(kind, header, row, strict=True)
        )
        lines.append(f'<tr class="base">{cells}</tr>' if number == base else f"<tr>{cells}</tr>")
    lines.append("</tbody></table></div>")
    if len(rows) > MOST_ROWS:
        lines.append(f'<p class="note">and {len(rows) - MOST_ROWS:,} more</p>')
    return "\n".join(lines)


def list_html(items: Sequence[str]) -> str:
    """Return sentences as a list."""
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def beside_html(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the skylines of Plan documents side by side, as many in a row as the page holds."""
    common = common_axes(documents)
    figures = [
        f"<figure>{_own_ids(skyline_svg(document, beside=common), number)}</figure>"
        for number, document in enumerate(documents)
    ]
    return f'<div class="beside">{"".join(figures)}</div>'


def folded_html(summary: str, body: str) -> str:
    """Return what opens at a click."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def page_html(title: str, sections: Sequence[tuple[str, str]]) -> str:
    """Return a page of sections: (heading, HTML)."""
    body = "\n".join(f"<h2>{escape(heading)}</h2>\n{html}" for heading, html in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def _own_ids(svg: str, number: int) -> str:
    """Make the ids of one picture its own: two pictures on a page must not share clip paths."""
    for mark in ('id="', "url(#", 'href="#'):
        svg = svg.replace(mark, f"{mark}s{number}-")
    return svg
