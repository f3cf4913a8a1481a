"""`agenda diag`: one file about a server for who is to help with it, without secrets."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from service.cli.client.server import Server, client_options
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.options import READABLE, WRITABLE
from service.config import ConfigError
from service.monitoring.bundle import SupportBundle, last_lines, secrets_of_url, url_without_secrets
from service.monitoring.diagnostics import versions
from service.store.database.facts import facts_of_url

_LINES: Final = 1000

#: File of the bundle -> what a server is asked for it.
_ASKED: Final = {
    "server/ready.json": "/readyz",
    "server/diagnostics.json": "/v1/diagnostics",
    "server/cluster.json": "/v1/cluster",
    "server/optimizations.json": "/v1/optimizations",
}


@click.command()
@client_options
@click.option("--database", metavar="URL",
              help="Also look into this database: revision and counts, no content.")  # fmt: skip
@click.option("--log", type=READABLE, help="Also take the last lines of this log.")
@click.option("--lines", type=click.IntRange(min=1), default=_LINES, show_default=True,
              help="How many lines of the log.")  # fmt: skip
@click.option("--out", type=WRITABLE, help="The file to write.  [default: agenda-diag-TIME.tar.gz]")
@reports_errors
def diag(
    server: Server, database: str | None, log: Path | None, lines: int, out: Path | None
) -> int:
    """Collect what is known of a server into one file, for who is to help with it.

    Passwords and tokens are left out. What cannot be had (the server does not answer) is named in
    the file's manifest.
    """
    name = f"agenda-diag-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    bundle = SupportBundle(name, _secrets(server, database))
    bundle.add_json("versions.json", versions())
    bundle.add_json("environment.json", _environment())
    for file, asked in _ASKED.items():
        _take(bundle, file, partial(_answer, server, asked))
    if database is not None:
        bundle.add_json("database/url.json", {"url": url_without_secrets(database)})
        _take(bundle, "database/facts.json", partial(facts_of_url, database))
    if log is not None:
        bundle.add_text("log.txt", last_lines(log, lines))
    path = Path(f"{name}.tar.gz") if out is None else out
    names = bundle.write(path)
    for missing, why in bundle.missing.items():
        click.echo(f"without {missing}: {why}", err=True)
    click.echo(f"{path}: {len(names)} files")
    return DONE


def _answer(server: Server, path: str) -> Any:
    """Return what a server answers to a read."""
    return server.call("GET", path).good()


def _take(bundle: SupportBundle, name: str, read: Callable[[], Any]) -> None:
    """Add what `read` returns, or why it cannot be had."""
    try:
        found = read()
    except (CliError, ConfigError, OSError) as error:
        bundle.add_missing(name, str(error))
        return
    if isinstance(found, dict) and isinstance(found.get("metrics"), str):
        bundle.add_text("server/metrics.txt", found.pop("metrics"))
    bundle.add_json(name, found)


def _environment() -> dict[str, str]:
    """Return the settings of Agenda in the environment; the bundle hides those that are secret."""
    return {name: value for name, value in os.environ.items() if name.startswith("AGENDA_")}


def _secrets(server: Server, database: str | None) -> list[str]:
    given = [server.token] if server.token else []
    return given if database is None else [*given, *secrets_of_url(database)]
