"""Write the generated parts of docs/api.md and docs/cli.md: ``python -m service.docs``.

Each page begins with text written by hand. The part after the line `MARK` is generated from the
routes and the commands, so that it lists every call, code, command and option.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import click

from planner.placement import Code
from service.access.user import Role
from service.cli.main import main
from service.http.fields import Field
from service.http.route import Route
from service.problems import CODES
from service.resources.table import ROUTES

MARK: Final = "<!-- Below: written by `python -m service.docs`. Edit the text above only. -->"

FOLDER: Final = Path(__file__).parents[1] / "docs"

_ROLES: Final = {
    None: " No token needed.",
    Role.USER: "",
    Role.OPERATOR: " For operators.",
    Role.ADMIN: " For admins.",
}

#: Prefix of the summary of a page for browsers.
_PAGE: Final = "The page for browsers: "

#: Codes of the planner's refusals, all of which a planning call may return.
_REFUSALS: Final = frozenset(
    {
        Code.CAPACITY,
        Code.CAPACITY_OVER_TIME,
        Code.QUOTA,
        Code.WINDOW_LIMIT,
        Code.LEAD_TIME,
        Code.COUNT_LIMIT,
        Code.TIME_LIMIT,
        Code.UNSATISFIABLE,
        Code.BEYOND_HORIZON,
        Code.CONFLICT,
    }
)

#: Number of commands from which an option with the same text is described once.
_SHARED: Final = 4

#: The range in a note after the text of an option, and the text before it.
_RANGE: Final = re.compile(r"\s+\[(?:([^\[\]]*); )?[\d.]*<?=?x[<>][^\]]*\]")

#: Sets of shared options, each under one word.
_SETS: Final = {
    "server": ("--server", "--token", "--token-file", "--munge", "-o"),
    "list": ("--columns", "--sort", "--no-headers", "--watch"),
}


def api_reference(routes: Sequence[Route] = ROUTES) -> str:
    """Return every call and every code as Markdown."""
    counts = Counter(_query(field) for route in routes for field in route.query)
    shared = {text for text, count in counts.items() if count > 1}
    lines = ["## All calls", "", "Parameters of several calls:", ""]
    lines += [*(f"- {text}" for text in counts if text in shared), ""]
    nouns = list(dict.fromkeys(_noun(route) for route in routes))
    for noun, group in groupby(sorted(routes, key=lambda one: nouns.index(_noun(one))), key=_noun):
        members = list(group)
        lines += [f"### {noun}", "", "| Call | Purpose | Codes |", "|---|---|---|"]
        lines += [_call_row(route) for route in members] + [""]
        parameters = [line for route in members if (line := _parameters(route, shared))]
        lines += [*parameters, ""] if parameters else []
    lines += ["## All codes", "", "| Code | Status | Meaning |", "|---|---|---|"]
    lines += [f"| `{code}` | {status} | {title} |" for code, (status, title) in CODES.items()]
    return "\n".join(lines) + "\n"


def _noun(route: Route) -> str:
    """Return the heading of a call: the first noun of its path."""
    parts = re.split(r"[/:]", route.path.removeprefix("/v1").strip("/"))
    return {"": "server", "docs": "server", "openapi.json": "server"}.get(parts[0], parts[0])


def _call_row(route: Route) -> str:
    successes = [str(status) for status in route.answers]
    codes = [str(code) for code in route.problems if code not in ("malformed", "not_found")]
    if set(codes) >= _REFUSALS:
        codes = ["refusals", *(code for code in codes if code not in _REFUSALS)]
    codes = [code if code == "refusals" else f"`{code}`" for code in codes]
    purpose = route.summary.removeprefix(_PAGE)
    if purpose == route.summary:
        purpose += _ROLES[route.role]
    return f"| `{route.method} {route.path}` | {purpose} | {', '.join(successes + codes)} |"


def _query(field: Field) -> str:
    return f"`{field.name}`: {field.description.rstrip('.')}"


def _parameters(route: Route, shared: Collection[str]) -> str:
    """Return one line about the inputs of a call apart from its path, or nothing."""
    texts = [(field.name, _query(field)) for field in route.query]
    query = [f"`{name}`" if text in shared else text for name, text in texts]
    headers = [f"`{header.name}`" for header in route.headers]
    body = [f"`{field.name}`" for field in route.body.fields or ()] if route.body else []
    parts = ["; ".join(query)] if query else []
    parts += [f"headers {', '.join(headers)}"] if headers else []
    parts += [f"body {', '.join(body)}"] if body else []
    return f"- `{route.method} {route.path}`: {'; '.join(parts)}." if parts else ""


def cli_reference(group: click.Group = main) -> str:
    """Return every command and every option as Markdown."""
    commands = list(_walk(group, click.Context(group, info_name="agenda")))
    counts = Counter(text for _, command, context in commands for text in _texts(command, context))
    shared = [text for text, count in counts.items() if count >= _SHARED]
    lines = ["## Options of many commands", ""]
    for word, names in _SETS.items():
        lines += [f"*{word}*:", "", *(_line(text) for text in shared if _name(text) in names), ""]
    rest = [text for text in shared if _word(_name(text)) == _name(text)]
    lines += ["Others:", "", *map(_line, rest), "", "## All commands", ""]
    described: dict[tuple[str | None, tuple[tuple[str, str], ...]], str] = {}
    for path, command, context in commands:
        texts = _texts(command, context)
        usage = " ".join(command.collect_usage_pieces(context)).removeprefix("[OPTIONS]").strip()
        lines += [f"### `{path}{' ' if usage else ''}{usage}`", ""]
        same = described.setdefault((command.help, tuple(texts)), path)
        if same != path:
            lines += [f"The same as `{same}`.", ""]
            continue
        lines += [_purpose(command), ""]
        lines += [_line(text) for text in texts if text not in shared]
        also = dict.fromkeys(_word(_name(text)) for text in texts if text in shared)
        lines += [f"    also: {', '.join(also)}"] if also else []
        lines += [""] if texts else []
    return "\n".join(lines).rstrip() + "\n"


def _walk(
    group: click.Group, context: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield the path, the command and its context of every command that is not a group."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        below = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _walk(command, below)
        else:
            yield below.command_path, command, below


def _texts(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """Return the options of a command as in its help, except `--help`, without ranges."""
    records = [
        one.get_help_record(context) for one in command.params if isinstance(one, click.Option)
    ]
    return [
        (re.sub(r"(?:INTEGER|FLOAT) RANGE|INTEGER", "N", names), _RANGE.sub(_default_only, text))
        for names, text in filter(None, records)
    ]


def _default_only(match: re.Match[str]) -> str:
    """Return a note such as `[default: 0; x>=0]` without the range."""
    return f" [{match[1]}]" if match[1] else ""


def _name(text: tuple[str, str]) -> str:
    return re.split(r"[ ,]", text[0])[0]


def _word(name: str) -> str:
    """Return the set that an option belongs to, or its own name."""
    return next((word for word, names in _SETS.items() if name in names), name)


def _line(text: tuple[str, str]) -> str:
    return f"    {text[0]}  {' '.join(text[1].split())}"


def _purpose(command: click.Command) -> str:
    """Return the first paragraph of a command's help on one line."""
    return " ".join((command.help or "").partition("\n\n")[0].split())


def write(folder: Path = FOLDER) -> None:
    """Replace the part after the mark in both pages."""
    for name, text in (("api.md", api_reference()), ("cli.md", cli_reference())):
        page = folder / name
        above, mark, _ = page.read_text(encoding="utf-8").partition(MARK)
        if not mark:
            raise SystemExit(f"{page}: has no line {MARK}")
        page.write_text(f"{above}{MARK}\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    write()
