"""`agenda watch` and `agenda webhook`: what happens on a server, printed or posted to a URL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import click

from agenda.errors import UnauthenticatedError
from agenda.event_stream import EventStream
from agenda.records import Event
from rdl.durations import TimeTextError, parse_duration
from rdl.local_time import UTC_ZONE
from service.cli.completion import completing
from service.cli.kit.errors import DONE, CliError, reports_errors
from service.cli.kit.output import (
    JSON,
    TABLE,
    ListColumn,
    format_option,
    listing_options,
    local_rows,
    local_text,
    print_json,
    print_listing,
    print_table,
    print_title,
    zone_line,
)
from service.cli.kit.server import Server, as_messages, client_options, entry_path
from service.pictures.style import cell_text

#: What of an event stands in columns of its own.
_OWN_COLUMNS: Final = ("id", "version", "kind", "at", "reservation", "tenant")


@click.command()
@click.option(
    "--tenant",
    shell_complete=completing("tenant"),
    help="Of reservations: only those of this tenant.",
)
@click.option("--reservation", help="Of reservations: only this one.")
@click.option("--kind", "kinds", multiple=True, help="Only this kind; may be repeated.")
@click.option("--after", help="Begin after this version of the Plan or event.  [default: now]")
@click.option("--wait", metavar="TIME", help="Stop after this time, such as 10m.  [default: never]")
@client_options
@format_option(TABLE, JSON)
@reports_errors
def watch(
    server: Server,
    form: str,
    tenant: str | None,
    reservation: str | None,
    kinds: tuple[str, ...],
    after: str | None,
    wait: str | None,
) -> int:
    """Print what happens on a server, one line an event, until stopped.

    Where the server is away for a while, nothing is missed or printed twice.
    """
    options = {
        "tenant": tenant,
        "reservation": reservation,
        "kinds": ",".join(kinds),
        "after": after,
    }
    query = {name: value for name, value in options.items() if value}
    print_events(server, query, seconds_in(wait, "--wait"), form)
    return DONE


def print_events(
    server: Server, query: Mapping[str, str], timeout_s: float | None, form: str
) -> None:
    """Print events as they come, until the time is over."""
    clock = EventClock(server)
    with as_messages():
        try:
            for event in EventStream(server.connection(), query, timeout_s, _tell):
                click.echo(_event_text(event, form, clock))
        except UnauthenticatedError as error:
            raise CliError(server.no_entry(error.body)) from error


class EventClock:
    """Times of events by the clock of a server's cluster, which is asked once, when one is told."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._known: tuple[str | None, str] | None = None

    def text(self, seconds: float) -> str:
        """Return a time as people read it; seconds where the server tells no origin."""
        if self._known is None:
            self._known = self._asked()
        origin, zone = self._known
        if origin is None:
            return cell_text(seconds)
        return f"{local_text(origin, seconds // 1, zone)} {zone}"

    def _asked(self) -> tuple[str | None, str]:
        try:
            body = self._server.call("GET", "/v1/cluster").body
        except CliError:
            body = None
        cluster = body if isinstance(body, dict) else {}
        return cluster.get("origin"), cluster.get("zone", UTC_ZONE)


def _event_text(event: Event, form: str, clock: EventClock) -> str:
    """Return an event as a line."""
    data = dict(event.data)
    if form == JSON:
        return json.dumps(data, ensure_ascii=False)
    return event_line(event.kind, data, clock)


def _tell(sentence: str) -> None:
    click.echo(sentence, err=True)


def seconds_in(text: str | None, option: str) -> float | None:
    """Return a duration in seconds; None stays None.

    Raises
    ------
    click.BadParameter
        For anything else.
    """
    if text is None:
        return None
    try:
        return parse_duration(text) / 1000
    except TimeTextError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def event_line(kind: str, data: dict[str, Any], clock: EventClock) -> str:
    """Return an event as a line: id, time, kind, whose, and what else is told."""
    at = "-" if "at" not in data else clock.text(data["at"])
    rest = " ".join(
        f"{name}={_value_text(one)}" for name, one in data.items() if name not in _OWN_COLUMNS
    )
    words = (
        f"{data.get('id', '-'):>10}",
        f"{at:>12}",
        f"{kind:<12}",
        data.get("reservation", ""),
        f"({data['tenant']})" if data.get("tenant") else "",
        rest or (f"version={data['version']}" if "version" in data else ""),
    )
    line = " ".join(word for word in words if word).rstrip()
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)


def _value_text(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}:{one}" for name, one in value.items()) or "nothing"
    return str(value)


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
