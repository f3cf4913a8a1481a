"""`agenda watch`: what happens on a server, line by line, as it happens."""

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
from service.cli.client.completion import completing
from service.cli.client.server import Server, as_messages, client_options
from service.cli.forms.local_times import local_text
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.output import JSON, TABLE, format_option
from service.pictures.style import cell_text

#: What of an event stands in columns of its own.
_COLUMNS: Final = ("id", "version", "kind", "at", "reservation", "tenant")


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
    rest = " ".join(f"{name}={_text(one)}" for name, one in data.items() if name not in _COLUMNS)
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


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}:{one}" for name, one in value.items()) or "nothing"
    return str(value)
