"""`agenda policies list|show|set|remove`: limits, and how much of each is used."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from service.cli.kit.commands import (
    Answer,
    Entry,
    Listing,
    Table,
    queue_option,
    server_command,
    tenant_option,
)
from service.cli.kit.errors import CliError
from service.cli.kit.options import READABLE_OR_STDIN
from service.cli.kit.server import Server, completing, entry_path
from service.sentences import counted

_PATH: Final = "/v1/policies"

#: What an account is called that counts everybody together.
_ALL: Final = "all"

_NAME: Final = click.argument("name", shell_complete=completing("policy"))


def _amount(entry: Entry, name: str) -> float | None:
    """Return an amount, whole numbers as such."""
    value = entry.get(name)
    return None if value is None else int(value) if value == int(value) else value


def _share(entry: Entry) -> str | None:
    limit = entry.get("limit")
    return f"{entry['peak'] / limit:.0%}" if limit else None


def _of(entry: Entry) -> str:
    """Return the account: tenant, queue or agent."""
    parts = [str(entry[part]) for part in ("tenant", "queue", "agent") if entry.get(part)]
    return " ".join(parts) or _ALL


_USE: Final = Table(
    "policy type of counts* resource used peak guarantee* limit unit share peak_at applies*",
    "peak_at",
    {"share": "peak/limit", "peak_at": "peak at"},
    of=_of,
    counts=lambda one: one.get("measure"),
    used=partial(_amount, name="used"),
    peak=partial(_amount, name="peak"),
    guarantee=partial(_amount, name="guarantee"),
    limit=partial(_amount, name="limit"),
    share=_share,
)


def _in_gib(use: dict[str, Any]) -> dict[str, Any]:
    """Return the use of memory in GiB instead of the API's MiB; other uses unchanged."""
    if use["unit"] != "MiB":
        return use
    amounts = {
        name: use[name] / 1024
        for name in ("used", "peak", "limit", "guarantee")
        if use[name] is not None
    }
    return {**use, **amounts, "unit": "GiB"}


def _rows(policies: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each account of each limit; one for a policy without any."""
    for one in policies:
        head = {"policy": one["name"], "type": one["policy"]["type"]}
        if not one["use"]:
            scope = {part: one["policy"].get(part) for part in ("tenant", "queue")}
            yield {**scope, **head}
        for use in one["use"]:
            yield {**_in_gib(use), **head}


@click.group()
def policies() -> None:
    """Show quotas and other policies with their use, change and remove them."""


@server_command(policies, "list", lists=True)
def list_(server: Server) -> Listing:
    """List policies with their present use and the peak of future use."""
    body = server.call("GET", _PATH).good()
    rows = list(_rows(body["policies"]))
    title = counted(len(body["policies"]), "policy", "policies")
    return Listing(body, rows, _USE, title, "no policies", "policies")


@server_command(policies, "show", _NAME)
def show(server: Server, name: str) -> Answer:
    """Show the policy NAME as a cluster file has it, and its use."""
    return _answer(server, server.call("GET", entry_path(_PATH, name)).good())


def _answer(server: Server, body: Mapping[str, Any]) -> Answer:
    return Answer(body, partial(_print, server, body))


def _print(server: Server, body: Mapping[str, Any]) -> None:
    for key, value in body["policy"].items():
        click.echo(f"{key:<10}{value if isinstance(value, str) else json.dumps(value)}")
    if body["use"]:
        click.echo()
        _USE.print(list(_rows([body])), server.zone())


def _limits(
    _context: click.Context, _option: click.Parameter, values: tuple[str, ...]
) -> dict[str, Any]:
    """Return amounts by resource of ``cpu=40`` and ``memory=2TiB``."""
    found: dict[str, Any] = {}
    for value in values:
        resource, given, amount = value.partition("=")
        if not (resource and given and amount):
            raise click.BadParameter(f"{value!r}: write a resource and its amount, such as cpu=40")
        try:
            found[resource] = json.loads(amount)
        except ValueError:
            found[resource] = amount  # with a unit
    return found


@server_command(
    policies,
    "set",
    _NAME,
    click.argument("file", type=READABLE_OR_STDIN, required=False),
    click.option(
        "--limit",
        "limits",
        multiple=True,
        callback=_limits,
        metavar="RESOURCE=AMOUNT",
        help="Limit of a quota at any time, such as cpu=40 or memory=2TiB; may be repeated.",
    ),
    click.option(
        "--guarantee",
        "guarantees",
        multiple=True,
        callback=_limits,
        metavar="RESOURCE=AMOUNT",
        help="Guarantee of a lending quota, such as cpu=40: capacity that its cohort always leaves "
        "it.",
    ),
    click.option("--cohort", help="Name of a group of quotas that lend to each other."),
    click.option(
        "--lend",
        metavar="DURATION",
        help="Time before its use from which unreserved capacity is lent, such as 6h.",
    ),
    tenant_option("Tenant that a new quota limits; '*': each tenant separately."),
    queue_option("Queue that a new quota limits; '*': each queue separately."),
)
def set_(
    server: Server,
    name: str,
    file: str | None,
    limits: dict[str, Any],
    guarantees: dict[str, Any],
    cohort: str | None,
    lend: str | None,
    tenant: str | None,
    queue: str | None,
) -> Answer:
    """Add the policy NAME, or change it.

    FILE is one policy as a cluster file has it, in TOML or JSON (- reads standard input). Without
    it --limit, --guarantee, --cohort and --lend change only those members of a quota, or add a
    quota.
    """
    scope = {key: word for key, word in (("tenant", tenant), ("queue", queue)) if word is not None}
    words = {key: word for key, word in (("cohort", cohort), ("lend", lend)) if word is not None}
    amounts = {key: one for key, one in (("limit", limits), ("guarantee", guarantees)) if one}
    if (file is None) == (not amounts and not words):
        raise click.UsageError("give either a FILE or --limit, --guarantee, --cohort or --lend")
    if file is not None and scope:
        raise click.UsageError("--tenant and --queue need --limit; a FILE has its own")
    path, headers = entry_path(_PATH, name), {}
    if file is not None:
        wanted = _read(file)
    else:
        known = server.call("GET", path)
        if known.code == "not_found":
            wanted = {"type": "quota", **scope, **words, **amounts}
        else:
            present = known.good()["policy"]
            merged = {key: {**present.get(key, {}), **amounts[key]} for key in amounts}
            wanted = {**present, **scope, **words, **merged}
            headers = {"If-Match": known.tag or "*"}
    return _answer(server, server.call("PUT", path, wanted, headers=headers).good())


def _read(file: str) -> Any:
    """Return the document of a file, JSON where it begins as an object does, else TOML."""
    where = "standard input" if file == "-" else file
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    try:
        return json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except ValueError as error:
        raise CliError(f"{where}: {error}") from error


@server_command(policies, "remove", _NAME, forms=())
def remove(server: Server, name: str) -> None:
    """Remove the policy NAME: requests are no longer judged by it."""
    server.call("DELETE", entry_path(_PATH, name)).good()
    click.echo(f"policy {name} is removed", err=True)
