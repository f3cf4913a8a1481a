"""`agenda webhook create|list|show|delete|test`: who is told what happens on a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from service.cli.client.completion import completing
from service.cli.client.server import Server, client_options, entry_path
from service.cli.forms.layout import ListColumn
from service.cli.forms.local_times import local_rows, zone_line
from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.output import (
    JSON,
    TABLE,
    format_option,
    listing_options,
    print_json,
    print_listing,
    print_table,
    print_title,
)

_PATH: Final = "/v1/webhooks"
_COLUMNS: Final = ("id", "url", "kinds", "tenant", "waiting", "delivered", "dead", "stopped")
_LISTED: Final = tuple(ListColumn(name, is_wide=name == "kinds") for name in _COLUMNS)
_FAILURE: Final = ("event", "kind", "state", "attempts", "error", "at")


@click.group()
def webhook() -> None:
    """Have a server post what happens to a URL, and see what arrived."""


@webhook.command()
@click.argument("url")
@click.option("--kind", "kinds", multiple=True,
              help="Tell of this; may be repeated.  [default: what owners must know]")  # fmt: skip
@click.option(
    "--tenant", shell_complete=completing("tenant"), help="Only of this tenant's reservations."
)
@click.option("--reservation", help="Only of this reservation.")
@click.option("--lead", type=float, metavar="SECONDS",
              help="How long before its begin one is announced.  [default: 300]")  # fmt: skip
@client_options
@format_option(TABLE, JSON)
@reports_errors
def create(
    url: str,
    server: Server,
    form: str,
    kinds: tuple[str, ...],
    tenant: str | None,
    reservation: str | None,
    lead: float | None,
) -> int:
    """Post what happens from now on to URL; the secret is shown only now."""
    options = {
        "url": url, "kinds": list(kinds) or None, "tenant": tenant, "reservation": reservation,
        "lead": lead,
    }  # fmt: skip
    body = {name: value for name, value in options.items() if value is not None}
    made = server.call("POST", _PATH, body).good()
    if form == JSON:
        print_json(made)
    else:
        click.echo(f"{made['id']} tells {made['url']}: {' '.join(made['kinds'])}")
        click.echo(f"secret, shown only now: {made['secret']}")
    return DONE


@webhook.command("list")
@client_options
@listing_options()
@reports_errors
def list_(server: Server, form: str) -> int:
    """List webhooks, and how much of what they were told has arrived."""
    body = server.call("GET", _PATH).good()
    rows = [_row(one) for one in body["webhooks"]]
    title = f"{len(rows):,} webhooks; waiting, delivered and dead: events"
    print_listing(body, _LISTED, rows, form, "no webhooks", title)
    return DONE


@webhook.command()
@click.argument("id_", metavar="ID", shell_complete=completing("webhook"))
@client_options
@format_option(TABLE, JSON)
@reports_errors
def show(id_: str, server: Server, form: str) -> int:
    """Show the webhook ID, and what could not be delivered to it."""
    body = server.call("GET", entry_path(_PATH, id_)).good()
    if form == JSON:
        print_json(body)
        return DONE
    print_title("waiting, delivered and dead: events")
    print_table(_COLUMNS, [_row(body)])
    if body["failures"]:
        click.echo()
        zone = server.zone()
        rows = [[one[name] for name in _FAILURE] for one in body["failures"]]
        print_title(f"what could not be delivered; {zone_line(zone)}")
        print_table(_FAILURE, local_rows(_FAILURE, rows, ("at",), zone))
    return DONE


@webhook.command()
@click.argument("id_", metavar="ID", shell_complete=completing("webhook"))
@client_options
@reports_errors
def delete(id_: str, server: Server) -> int:
    """Post nothing more to the webhook ID."""
    server.call("DELETE", entry_path(_PATH, id_)).good()
    return DONE


@webhook.command()
@click.argument("id_", metavar="ID", shell_complete=completing("webhook"))
@client_options
@reports_errors
def test(id_: str, server: Server) -> int:
    """Have an event of kind test posted to the webhook ID."""
    event = server.call("POST", f"{entry_path(_PATH, id_)}/test").good()["event"]
    click.echo(f"{event} is posted soon; `agenda webhook show {id_}` says whether it was taken")
    return DONE


def _row(one: Mapping[str, Any]) -> list[object]:
    counts = one["deliveries"]
    numbers = [counts[state] for state in ("waiting", "delivered", "dead")]
    return [one["id"], one["url"], " ".join(one["kinds"]), one["tenant"], *numbers, one["stopped"]]
