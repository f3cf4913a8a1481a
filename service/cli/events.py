"""`agenda watch` and `agenda webhook`: events of a server, printed or posted to a URL."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import click

from agenda.errors import UnauthenticatedError
from agenda.event_stream import EventStream
from agenda.records import Event
from rdl.durations import TimeTextError, parse_duration
from rdl.local_time import UTC_ZONE
from service.cli.kit.commands import (
    Answer,
    Entry,
    Listing,
    Table,
    given,
    id_of,
    server_command,
    tenant_option,
)
from service.cli.kit.errors import CliError
from service.cli.kit.options import Option
from service.cli.kit.output import JSON, local_text, zone_line
from service.cli.kit.server import Server, as_messages, entry_path
from service.pictures.style import cell_text
from service.sentences import counted
from service.webhooks.messages import message_of

#: After how long the command of `--run` is ended, s: the next event waits for it.
_RUN_S: Final = 60

#: What of an event stands in columns of its own.
_OWN_COLUMNS: Final = ("id", "version", "kind", "at", "reservation", "tenant")

#: Which events are printed, and until when.
EVENT_OPTIONS: Final[tuple[Option, ...]] = (
    click.option("--kind", "kinds", multiple=True, help="Only this kind; may be repeated."),
    click.option("--after", help="Begin after this version of the Plan or event.  [default: now]"),
    click.option(
        "--wait", metavar="TIME", help="Stop after this time, such as 10m.  [default: never]"
    ),
)


@server_command(
    None,
    "watch",
    tenant_option("Only events of this tenant's reservations."),
    click.option("--reservation", help="Only events of this reservation."),
    *EVENT_OPTIONS,
    click.option(
        "--run",
        "command",
        metavar="COMMAND",
        help="Run this for each event: its message on standard input; AGENDA_KIND, AGENDA_TENANT "
        "and AGENDA_RESERVATION in the environment.",
    ),
    shows_itself=True,
)
def watch(server: Server, form: str, wait: str | None, command: str | None, **options: Any) -> None:
    """Print the events of a server, one line each, until stopped.

    If the server is unavailable for a while, no event is missed or printed twice.
    """
    words = shlex.split(command or "")
    if words and shutil.which(words[0]) is None:
        raise CliError(f"--run: there is no command {words[0]!r} here")
    print_events(server, form, wait, words=words, **options)


def print_events(
    server: Server,
    form: str,
    wait: str | None,
    *,
    kinds: tuple[str, ...],
    words: Sequence[str] = (),
    **query: str | None,
) -> None:
    """Print events as they come, until the time is over; run a command for each if there is one."""
    timeout_s = seconds_in(wait, "--wait")
    asked = given(**query, kinds=",".join(kinds) or None)
    clock = EventClock(server)
    with as_messages():
        try:
            for event in EventStream(server, asked, timeout_s, _tell):
                click.echo(_event_text(event, form, clock))
                if words:
                    _run_for(words, event)
        except UnauthenticatedError as error:
            raise CliError(server.no_entry(error.body)) from error


class EventClock:
    """Times of events in the zone of a server's cluster, which is read once, at the first event."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._known: tuple[str | None, str] | None = None

    def text(self, seconds: float) -> str:
        """Return a time as text; seconds if the server has no origin."""
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


def _run_for(words: Sequence[str], event: Event) -> None:
    """Run a command for an event; one that fails or takes too long is reported, and no more."""
    data = {"kind": event.kind, **event.data}
    names = ("kind", "tenant", "reservation")
    environment = {f"AGENDA_{name.upper()}": str(data.get(name) or "") for name in names}
    message = f"{message_of(data)}\n"
    try:
        done = subprocess.run(
            words, input=message, env={**os.environ, **environment}, encoding="utf-8",
            timeout=_RUN_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        _tell(f"--run: {error}")
        return
    if done.returncode:
        _tell(f"--run: {words[0]} ended with {done.returncode} for event {data.get('id', '-')}")


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
    """Return an event as a line: id, time, kind, owner, and further attributes."""
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
_COUNTS: Final = "waiting, delivered and dead: events"


def _delivered(state: str) -> Any:
    return lambda hook: hook["deliveries"][state]


_WEBHOOKS: Final = Table(
    "id url kinds* tenant waiting delivered dead stopped",
    kinds=lambda hook: " ".join(hook["kinds"]),
    **{state: _delivered(state) for state in ("waiting", "delivered", "dead")},
)
_FAILURES: Final = Table("event kind state attempts error at", "at")
_ID: Final = id_of("webhook")


@click.group()
def webhook() -> None:
    """Create webhooks that post events to a URL, and show their deliveries."""


@server_command(
    webhook,
    "create",
    click.argument("url"),
    click.option("--kind", "kinds", multiple=True,
                 help="Report this; may be repeated.  [default: what owners must know]"),
    tenant_option("Only of this tenant's reservations."),
    click.option("--reservation", help="Only of this reservation."),
    click.option("--lead", type=float, metavar="SECONDS",
                 help="How long before its begin one is announced.  [default: 300]"),
    click.option("--format", type=click.Choice(("event", "slack", "text")),
                 help="The event as JSON, a message for Slack, or a line of text."
                      "  [default: event]"),
)  # fmt: skip
def create(server: Server, **options: Any) -> Answer:
    """Post events from now on to URL; the secret is shown only now."""
    made = server.call("POST", _PATH, given(**options)).good()
    text = (
        f"{made['id']} tells {made['url']}: {' '.join(made['kinds'])}\n"
        f"secret, shown only now: {made['secret']}"
    )
    return Answer(made, partial(click.echo, text))


@server_command(webhook, "list", lists=True)
def list_(server: Server) -> Listing:
    """List webhooks and their delivered events."""
    body = server.call("GET", _PATH).good()
    found = body["webhooks"]
    title = f"{counted(len(found), 'webhook')}; {_COUNTS}"
    return Listing(body, found, _WEBHOOKS, title, "no webhooks", timed=False)


@server_command(webhook, "show", _ID)
def show(id_: str, server: Server) -> Answer:
    """Show the webhook ID, and its failed deliveries."""
    body = server.call("GET", entry_path(_PATH, id_)).good()
    return Answer(body, partial(_print_webhook, server, body))


def _print_webhook(server: Server, hook: Entry) -> None:
    _WEBHOOKS.print([hook], title=_COUNTS)
    if hook["failures"]:
        click.echo()
        zone = server.zone()
        title = f"what could not be delivered; {zone_line(zone)}"
        _FAILURES.print(hook["failures"], zone, title)


@server_command(webhook, "delete", _ID, forms=())
def delete(id_: str, server: Server) -> None:
    """Delete the webhook ID."""
    server.call("DELETE", entry_path(_PATH, id_)).good()


@server_command(webhook, "test", _ID, forms=())
def test(id_: str, server: Server) -> None:
    """Have an event of kind test posted to the webhook ID."""
    event = server.call("POST", f"{entry_path(_PATH, id_)}/test").good()["event"]
    click.echo(f"{event} is posted soon; `agenda webhook show {id_}` says whether it was taken")
