"""`agenda token`: who may call a server, on its database; the server may run meanwhile."""

from __future__ import annotations

import getpass
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rdl.durations import TimeTextError, parse_instant
from rdl.expressions import Absolute, AfterSubmission
from rdl.local_time import UTC_ZONE
from service.access.actor import Actor, acting
from service.access.token import name_fault, user_fault
from service.access.user import Role, User
from service.cli.forms.layout import ListColumn
from service.cli.forms.local_times import local_rows, zone_line
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.output import (
    JSON,
    TABLE,
    format_option,
    listing_options,
    print_json,
    print_listing,
)
from service.clock import SystemClock, unix_ms

if TYPE_CHECKING:
    from service.store import Store

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+~-]{0,127}")

_COLUMNS: Final = ("id", "name", "role", "tenants", "good", "created", "end", "used")
_LISTED: Final = tuple(ListColumn(name, is_wide=name in ("created", "used")) for name in _COLUMNS)

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

    These commands work on the database of a server, whether it runs or not. Whoever can read that
    database could do as much; the secrets are not in it, only their hashes.
    """


@token.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice([role.word for role in Role]),
    default=Role.USER.word,
    show_default=True,
    help="What the token may do.",
)
@click.option(
    "--tenant", "tenants", multiple=True, help="A tenant that a user acts for; may be repeated."
)
@click.option(
    "--end", metavar="TIME", help="Until when it is good: 90d, or RFC 3339.  [default: for ever]"
)
@database_option
@format_option(TABLE, JSON)
@reports_errors
def create(
    name: str, role: str, tenants: tuple[str, ...], end: str | None, database: str, form: str
) -> int:
    """Create a token for the user NAME and print its secret, this once."""
    if not _NAME.fullmatch(name):
        raise CliError(f"{name!r} is no name; write letters, digits and _ . : @ + ~ -")
    fault = name_fault(name)
    if fault is not None:
        raise CliError(fault)
    user = User(name, Role[role.upper()], frozenset(tenants))
    fault = user_fault(user.role, user.tenants)
    if fault is not None:
        raise CliError(f"{fault} (--tenant)")
    now_ms = SystemClock().now_ms()
    end_ms = None if end is None else _end_of(end, now_ms)
    store = open_database(database, made=True)
    try:
        with acting(_operator("create")):
            made, secret = store.tokens.create(user, end_ms, now_ms)
    finally:
        store.close()
    if form == JSON:
        from service.store.rows.tokens import shown_token

        print_json({**shown_token(made, now_ms), "token": secret})
    else:
        click.echo(secret)
        click.echo(f"{made.id}: keep it; it is not shown again", err=True)
    return DONE


@token.command("list")
@database_option
@listing_options()
@reports_errors
def list_(database: str, form: str) -> int:
    """List the tokens of a database, without their secrets."""
    from service.store.rows.tokens import shown_token

    now_ms = SystemClock().now_ms()
    store = open_database(database)
    try:
        entries = [shown_token(one, now_ms) for one in store.tokens.all()]
        cluster = json.loads(store.find_setting("cluster") or "{}")
    finally:
        store.close()
    rows = [_row_of(one) for one in entries]
    zone = cluster.get("zone", UTC_ZONE)
    if form == TABLE:
        rows = local_rows(_COLUMNS, rows, ("created", "end", "used"), zone)
    title = f"{len(rows):,} tokens; {zone_line(zone)}"
    print_listing(entries, _LISTED, rows, form, "no tokens", title)
    return DONE


@token.command()
@click.argument("id_", metavar="ID")
@database_option
@reports_errors
def revoke(id_: str, database: str) -> int:
    """Revoke the token ID; servers that run take it for no longer than a second."""
    store = open_database(database)
    try:
        with acting(_operator("revoke")):
            found = store.tokens.revoke(id_, SystemClock().now_ms())
    finally:
        store.close()
    if found is None:
        raise CliError(f"there is no token {id_!r}; `agenda token list` shows those there are")
    click.echo(f"revoked {id_} of {found.user.name}")
    return DONE


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


def _row_of(entry: dict[str, Any]) -> list[object]:
    good = "yes" if entry["good"] else ("revoked" if entry["revoked_at"] else "ended")
    return [
        entry["id"], entry["name"], entry["role"], ",".join(entry["tenants"]), good,
        entry["created_at"], entry["end_at"] or "", entry["used_at"] or "",
    ]  # fmt: skip
