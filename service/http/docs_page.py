"""The page /docs: every call with a form to make it, and every problem code, as HTML."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from typing import Final

from service.http.route import Route
from service.problems import CODES

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto;
  padding: 0 1rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
tr:target { outline: 2px solid; }
details { border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
summary { cursor: pointer; padding: .35rem 0; }
summary code { font-weight: 600; margin-right: .6rem; }
form { display: grid; gap: .5rem; padding: 0 0 1rem 1rem; }
label { display: grid; gap: .1rem; max-width: 30rem; }
label.body { max-width: none; }
input, textarea, button { font: inherit; padding: .25rem .5rem; max-width: 100%; }
textarea, pre { font: .9rem/1.4 ui-monospace, monospace; }
button { justify-self: start; }
pre { margin: 0; max-height: 30rem; overflow: auto; white-space: pre-wrap; }
small { opacity: .75; }
"""

#: Makes the call of a form, and shows the answer below it, with the token of the browser tab.
_SCRIPT: Final = """
const token = document.getElementById("token");
token.value = sessionStorage.getItem("agenda.token") ?? localStorage.getItem("agenda.token") ?? "";
const send = async (form) => {
  const { method, path } = form.dataset;
  const answer = form.querySelector("pre");
  const query = new URLSearchParams();
  const headers = {};
  let filled = path;
  for (const input of form.querySelectorAll("input")) {
    if (input.dataset.in === "path") {
      filled = filled.replace(`{${input.name}}`, encodeURIComponent(input.value));
    } else if (input.value && input.dataset.in === "query") query.set(input.name, input.value);
    else if (input.value) headers[input.name] = input.value;
  }
  if (token.value) headers.Authorization = `Bearer ${token.value.trim()}`;
  const body = form.querySelector("textarea")?.value.trim() || undefined;
  if (body) headers["Content-Type"] = form.dataset.media;
  const address = query.size ? `${filled}?${query}` : filled;
  answer.hidden = false;
  answer.textContent = `${method} ${address} ...`;
  try {
    const found = await fetch(address, { method, headers, body });
    const media = found.headers.get("Content-Type") ?? "";
    if (media.includes("event-stream")) {
      const reader = found.body.getReader();
      const { value } = await reader.read();
      await reader.cancel();
      answer.textContent = `${found.status}\\n${new TextDecoder().decode(value)}`;
      return;
    }
    const text = await found.text();
    const shown = media.includes("json") && text ? JSON.stringify(JSON.parse(text), null, 2) : text;
    answer.textContent = `${method} ${address}: ${found.status}\\n${shown.slice(0, 200000)}`;
  } catch (error) {
    answer.textContent = `${method} ${address}: ${error.message}`;
  }
};
for (const form of document.querySelectorAll("form")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
}
"""

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Agenda: the API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<style>{style}</style></head><body>
<h1>Agenda: the API</h1>
<p>Bodies are JSON. The full description is <a href="/openapi.json">/openapi.json</a>
(OpenAPI 3.1). Open a call to try it: Send makes the call on this server, as any client would.</p>
<label>Token, where the server asks for one
<input id="token" type="password" autocomplete="off"></label>
<h2>Calls</h2>
{calls}
<h2>Problems</h2>
<p>Every failure is <code>application/problem+json</code>:
<code>{{type, code, title, detail, errors}}</code>, and <code>refusal</code> where planning said
no.</p>
<table><thead><tr><th>Code</th><th>Status</th><th>Meaning</th></tr></thead><tbody>
{codes}
</tbody></table>
<script>{script}</script>
</body></html>
"""


def docs_policy() -> str:
    """Return the content policy of the page: its own style and script, calls of this server."""
    return (
        f"default-src 'none'; style-src '{_digest(_STYLE)}'; script-src '{_digest(_SCRIPT)}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def docs_page(routes: Sequence[Route]) -> str:
    """Return the calls and the problem codes as one page of HTML."""
    calls = "\n".join(_call(route) for route in routes)
    codes = "\n".join(
        f'<tr id="problem-{code}"><td><code>{code}</code></td><td>{status}</td>'
        f"<td>{html.escape(title)}</td></tr>"
        for code, (status, title) in CODES.items()
    )
    return _PAGE.format(style=_STYLE, script=_SCRIPT, calls=calls, codes=codes)


def _call(route: Route) -> str:
    """Return the HTML of a call: its description, answers, and a form to make it."""
    inputs = [_input(name, "path", required=True) for name in re.findall(r"{(\w+)}", route.path)]
    inputs += [_input(field.name, "query") for field in route.query]
    inputs += [_input(header.name, "header", required=header.required) for header in route.headers]
    media = "application/json"
    if route.body is not None:
        media = route.body.media[0]
        example = next(iter(route.body.examples.values()), None)
        text = "" if example is None else json.dumps(example, indent=2, ensure_ascii=False)
        inputs.append(
            '<label class="body">body<textarea name="body" rows="6" spellcheck="false">'
            f"{html.escape(text)}</textarea></label>"
        )
    path = html.escape(route.path)
    return (
        f'<details id="{html.escape(route.name)}"><summary><code>{route.method} {path}</code> '
        f"{html.escape(route.summary)}</summary>"
        f'<form data-method="{route.method}" data-path="{path}" data-media="{html.escape(media)}">'
        f"<small>Answers {', '.join(map(str, route.answers))}.</small>{''.join(inputs)}"
        "<button>Send</button><pre hidden></pre></form></details>"
    )


def _input(name: str, place: str, *, required: bool = False) -> str:
    shown = html.escape(name)
    needed = " required" if required else ""
    return (
        f'<label>{shown} ({place})<input name="{shown}" data-in="{place}" spellcheck="false"'
        f"{needed}></label>"
    )
