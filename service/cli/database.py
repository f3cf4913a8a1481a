"""`agenda token`, `backup`, `restore`, `upgrade`, `clock`, `diag`: a server's database and host."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rdl.durations import TimeTextError, parse_instant
from rdl.expressions import Absolute, AfterSubmission
from rdl.local_time import UTC_ZONE
from service.access.token import name_fault, user_fault
from service.access.user import Actor, Role, User, acting
from service.cli.kit.commands import Answer, Entry, Listing, Table, flag, server_command
from service.cli.kit.errors import DONE, CliError, reports_errors
from service.cli.kit.options import READABLE, WRITABLE
from service.cli.kit.server import Server, client_options
from service.clock import SystemClock, instant_of, unix_ms
from service.sentences import counted

if TYPE_CHECKING:
    from service.diagnostics import SupportBundle
    from service.store import Store


def _state_of(entry: Entry) -> str:
    return "yes" if entry["good"] else ("revoked" if entry["revoked_at"] else "ended")


_LISTED: Final = Table(
    "id name role tenants good created* end used*",
    "created end used",
    tenants=lambda entry: ",".join(entry["tenants"]),
    good=_state_of,
    created=lambda entry: entry["created_at"],
    end=lambda entry: entry["end_at"] or "",
    used=lambda entry: entry["used_at"] or "",
)

database_option = click.option(
    "--database",
    default="sqlite:///agenda.db",
    show_default=True,
    envvar="AGENDA_DATABASE",
    help="URL of the server's database.",
)


@click.group()
def token() -> None:
    """Say who may call a server that is started with --auth token.

    These commands work on the database of a server, whether it runs or not. Anyone who can read
    that database could do as much; the secrets are not in it, only their hashes.
    """


@server_command(
    token,
    "create",
    click.argument("name"),
    click.option(
        "--role",
        type=click.Choice([role.word for role in Role]),
        default=Role.USER.word,
        show_default=True,
        help="What the token may do.",
    ),
    click.option(
        "--tenant", "tenants", multiple=True, help="A tenant that a user acts for; may be repeated."
    ),
    click.option(
        "--end",
        metavar="TIME",
        help="Until when it is good: 90d, or RFC 3339.  [default: for ever]",
    ),
    database_option,
    offline=True,
)
def create(
    name: str, role: str, tenants: tuple[str, ...], end: str | None, database: str
) -> Answer:
    """Create a token for the user NAME and print its secret, this once."""
    from service.http.kinds import ID_PATTERN
    from service.store.tokens import shown_token

    if not ID_PATTERN.fullmatch(name):
        raise CliError(f"{name!r} is not a valid name; write letters, digits and _ . : @ + ~ -")
    fault = name_fault(name)
    if fault is not None:
        raise CliError(fault)
    user = User(name, Role[role.upper()], frozenset(tenants))
    fault = user_fault(user.role, user.tenants)
    if fault is not None:
        raise CliError(f"{fault} (--tenant)")
    now_ms = SystemClock().now_ms()
    end_ms = None if end is None else _end_of(end, now_ms)
    with closing(open_database(database, made=True)) as store, acting(_operator("create")):
        made, secret = store.tokens.create(user, end_ms, now_ms)

    def text() -> None:
        click.echo(secret)
        click.echo(f"{made.id}: keep it; it is not shown again", err=True)

    return Answer({**shown_token(made, now_ms), "token": secret}, text)


@server_command(token, "list", database_option, lists=True, offline=True)
def list_(database: str) -> Listing:
    """List the tokens of a database, without their secrets."""
    from service.store.tokens import shown_token

    now_ms = SystemClock().now_ms()
    with closing(open_database(database)) as store:
        entries = [shown_token(one, now_ms) for one in store.tokens.all()]
        cluster = json.loads(store.find_setting("cluster") or "{}")
    title, zone = counted(len(entries), "token"), cluster.get("zone", UTC_ZONE)
    return Listing(entries, entries, _LISTED, title, "no tokens", zone=zone)


@server_command(
    token, "revoke", click.argument("id_", metavar="ID"), database_option, forms=(), offline=True
)
def revoke(id_: str, database: str) -> None:
    """Revoke the token ID; servers that run take it for no longer than a second."""
    with closing(open_database(database)) as store, acting(_operator("revoke")):
        found = store.tokens.revoke(id_, SystemClock().now_ms())
    if found is None:
        raise CliError(f"there is no token {id_!r}; `agenda token list` shows those there are")
    click.echo(f"revoked {id_} of {found.user.name}")


def open_database(database: str, *, made: bool = False) -> Store:
    """Open a database; `made`: one that is not there yet is made."""
    from service.store import Store

    path = Path(database.removeprefix("sqlite:///"))
    if not made and database.startswith("sqlite:///") and not path.exists():
        raise CliError(f"{path} is not there; name the server's database with --database")
    return Store(database)


def _operator(verb: str) -> Actor:
    """Return who types a command, for the audit: the user of this machine."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        name = "unknown"
    return Actor(User(name[:128], Role.ADMIN), call=f"agenda token {verb}")


def _end_of(text: str, now_ms: int) -> int:
    """Return an end as Unix ms: a length from now, or an instant of the calendar."""
    try:
        instant = parse_instant(text if "T" in text or "t" in text else f"+{text.lstrip('+')}")
    except TimeTextError as error:
        raise CliError(f"--end: {error}") from error
    match instant:
        case Absolute(at=at):
            end_ms = unix_ms(at)
        case AfterSubmission(ms=ms):
            end_ms = now_ms + ms
        case _:
            raise CliError("--end: write a length such as 90d, or RFC 3339")
    if end_ms <= now_ms:
        raise CliError("--end: it is not in the future")
    return end_ms


_DATABASE = click.option(
    "--database",
    default="sqlite:///agenda.db",
    show_default=True,
    help="URL of the database.",
)


_BACKUP: Final = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))


@server_command(None, "backup", _BACKUP, _DATABASE, forms=(), offline=True)
def backup(file: Path, database: str) -> None:
    """Write a database into FILE as it is at one instant, while its servers continue.

    FILE is the same for every kind of database; 'agenda restore' fills an empty one from it.
    """
    from service.maintenance import back_up

    found = back_up(database, file)
    click.echo(f"{file}: version {found.version} of the Plan, {sum(found.rows.values())} rows")


@server_command(None, "restore", _BACKUP, _DATABASE, forms=(), offline=True)
def restore(file: Path, database: str) -> None:
    """Fill an empty database from a backup, and bring it up to date."""
    from service.maintenance import restore as fill
    from service.maintenance import upgrade_in_place

    found = fill(file, database)
    upgrade_in_place(database)
    click.echo(f"version {found.version} of the Plan, {sum(found.rows.values())} rows restored")


@server_command(
    None,
    "upgrade",
    _DATABASE,
    click.option(
        "--backup",
        "kept",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Where the backup is kept; else agenda-SCHEMA.backup in this folder.",
    ),
    flag("--dry-run", "Say what would be done; change nothing."),
    forms=(),
    offline=True,
)
def upgrade(database: str, kept: Path | None, dry_run: bool) -> None:
    """Bring the database of an older version up to date, with a backup before.

    Stop all servers of the database first.
    """
    from service.maintenance import bring_up_to_date, outlook

    found = outlook(database)
    if not found.steps:
        click.echo(f"the database is up to date: its schema is {found.schema}")
        return
    file = kept or Path(f"agenda-{found.schema}.backup")
    word = "would keep" if dry_run else "keeping"
    click.echo(f"{word} a backup in {file}")
    for step in found.steps:
        click.echo(f"{'would run' if dry_run else 'running'} {step.revision}: {step.summary}")
    if dry_run:
        return
    bring_up_to_date(database, file)
    click.echo(f"the schema is {found.newest} now; start the servers")


@click.group()
def clock() -> None:
    """Confirm a clock that a server does not trust.

    A clock that jumps ahead is not trusted, since its effects on reservations are permanent. The
    command works on the database of a server, on the server's host.
    """


@server_command(clock, "confirm", database_option, forms=(), offline=True)
def confirm(database: str) -> None:
    """Say that the clock of this host is right: servers of the database follow theirs again."""
    from service.store.host_clock import confirm_clock

    now_ms = SystemClock().now_ms()
    with closing(open_database(database)) as store:
        confirm_clock(store, now_ms)
    click.echo(f"confirmed: it is {instant_of(now_ms).isoformat(timespec='seconds')}", err=True)


_LINES: Final = 1000

#: File of the bundle -> what a server is requested it.
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
    """Collect the state of a server into one file, for those who help with it.

    Passwords and tokens are left out. Missing parts (the server does not answer) are listed in
    the file's manifest.
    """
    from service.diagnostics import (
        SupportBundle,
        last_lines,
        url_without_secrets,
        versions,
    )
    from service.store.schema import facts_of_url

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
    click.echo(f"{path}: {counted(len(names), 'file')}")
    return DONE


def _answer(server: Server, path: str) -> Any:
    """Return a server's answer to a read."""
    return server.call("GET", path).good()


def _take(bundle: SupportBundle, name: str, read: Callable[[], Any]) -> None:
    """Add the result of `read`, or the reason why it is missing."""
    from service.config import ConfigError

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
    from service.diagnostics import secrets_of_url

    given = [server.token] if server.token else []
    return given if database is None else [*given, *secrets_of_url(database)]
