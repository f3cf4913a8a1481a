"""The page /docs: every call and every problem code as HTML."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence
from typing import Final

from service.http.route import Route
from service.problems import CODES

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto;
  padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
tr:target { outline: 2px solid; }
"""

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Agenda: the API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{style}</style></head><body>
<h1>Agenda: the API</h1>
<p>Bodies are JSON. The full description is <a href="/openapi.json">/openapi.json</a>
(OpenAPI 3.1).</p>
<h2>Calls</h2>
<table><thead><tr><th>Call</th><th>What it does</th><th>Query</th><th>Answers</th></tr></thead>
<tbody>
{calls}
</tbody></table>
<h2>Problems</h2>
<p>Every failure is <code>application/problem+json</code>:
<code>{{type, code, title, detail, errors}}</code>, and <code>refusal</code> where planning said
no.</p>
<table><thead><tr><th>Code</th><th>Status</th><th>Meaning</th></tr></thead><tbody>
{codes}
</tbody></table>
</body></html>
"""


def docs_policy() -> str:
    """Return the content policy of the page: nothing but its own style."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def docs_page(routes: Sequence[Route]) -> str:
    """Return the calls and the problem codes as one page of HTML."""
    calls = "\n".join(_call_row(route) for route in routes)
    codes = "\n".join(
        f'<tr id="problem-{code}"><td><code>{code}</code></td><td>{status}</td>'
        f"<td>{html.escape(title)}</td></tr>"
        for code, (status, title) in CODES.items()
    )
    return _PAGE.format(style=_STYLE, calls=calls, codes=codes)


def _call_row(route: Route) -> str:
    query = ", ".join(f"<code>{field.name}</code>" for field in route.query)
    return (
        f"<tr><td><code>{route.method} {html.escape(route.path)}</code></td>"
        f"<td>{html.escape(route.summary)}</td><td>{query}</td>"
        f"<td>{', '.join(map(str, route.answers))}</td></tr>"
    )
