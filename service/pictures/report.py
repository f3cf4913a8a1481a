"""One self-contained HTML page: paragraphs, tables and skylines inline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

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
#values { position: fixed; z-index: 9; pointer-events: none; white-space: pre;
          max-width: 90vw; overflow: hidden; padding: .3rem .6rem;
          border: 1px solid #bbb; border-radius: 6px; background: #fff;
          font-size: .85rem; font-variant-numeric: tabular-nums; box-shadow: 0 2px 8px #0003; }
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
  #values { background: #20272e; border-color: #4a545e; }
}
"""

#: Shows the values of a skyline at the pointer, or at the column that arrow keys choose.
_HOVER = """
for (const figure of document.querySelectorAll(".beside figure")) {
  const { times, ends, names, panels } = JSON.parse(figure.querySelector("script").textContent);
  const svg = figure.querySelector("svg"), box = document.getElementById("values");
  const number = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
  let panel = panels[0], column = -1;
  const show = (x, y) => {
    const { unit, capacity, used } = panel;
    const lines = names.map((name, i) => [used[i][column], name]).filter(([held]) => held > 0);
    const total = lines.reduce((sum, [held]) => sum + held, 0);
    const whole = `${number.format(total)} of ${number.format(capacity[column])} ${unit}`;
    box.textContent = [times[column], whole,
      ...lines.reverse().map(([held, name]) => `${name}: ${number.format(held)}`)].join("\\n");
    box.hidden = false;
    box.style.left = `${Math.max(0, Math.min(x + 14, innerWidth - box.offsetWidth - 8))}px`;
    box.style.top = `${Math.max(0, Math.min(y + 14, innerHeight - box.offsetHeight - 8))}px`;
  };
  const hide = () => { box.hidden = true; };
  svg.addEventListener("pointermove", (event) => {
    const at = svg.getBoundingClientRect();
    const x = (event.clientX - at.left) / at.width, y = (event.clientY - at.top) / at.height;
    const over = panels.find(({ box: [left, right, top, bottom] }) =>
      x >= left && x < right && y >= top && y < bottom);
    if (!over) return hide();
    panel = over;
    const part = (x - over.box[0]) / (over.box[1] - over.box[0]);
    column = Math.max(0, ends.findIndex((end) => part < end));
    show(event.clientX, event.clientY);
  });
  svg.addEventListener("pointerleave", hide);
  figure.addEventListener("blur", hide);
  figure.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step || !panel) return;
    event.preventDefault();
    column = Math.max(0, Math.min(ends.length - 1, column + step));
    const at = svg.getBoundingClientRect(), [left, right, top] = panel.box;
    show(at.left + at.width * (left + (right - left) * ends[column]), at.top + at.height * top);
  });
}
"""

#: Rows of a long table that a page still shows well.
MOST_ROWS = 200


def table_html(
    header: Sequence[str], rows: Sequence[Sequence[object]], *, base: int | None = None
) -> str:
    """Return a table; numbers are right-aligned, row `base` is marked, long tables are cut."""
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
    from service.pictures.skyline import skyline_beside  # loads numpy: help does without it
    from service.pictures.skyline_data import common_axes

    common = common_axes(documents)
    figures = []
    for number, document in enumerate(documents):
        svg, values = skyline_beside(document, common)
        # A text of JSON in HTML ends with the first "</".
        plain = json.dumps(values, ensure_ascii=False).replace("<", "\\u003c")
        figures.append(
            f'<figure tabindex="0" role="group" aria-label="Skyline: arrows show values">'
            f"{_own_ids(svg, number)}"
            f'<script type="application/json">{plain}</script></figure>'
        )
    return (
        f'<div class="beside">{"".join(figures)}</div>'
        f'<output id="values" hidden></output><script>{_HOVER}</script>'
    )


def folded_html(summary: str, body: str) -> str:
    """Return a collapsible section."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def page_html(title: str, sections: Sequence[tuple[str, str]]) -> str:
    """Return a page of sections: (heading, HTML)."""
    body = "\n".join(f"<h2>{escape(heading)}</h2>\n{html}" for heading, html in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _own_ids(svg: str, number: int) -> str:
    """Make the ids of one picture its own: two pictures on a page must not share clip paths."""
    for mark in ('id="', "url(#", 'href="#'):
        svg = svg.replace(mark, f"{mark}s{number}-")
    return svg
