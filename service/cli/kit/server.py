"""A server as commands call it: the client library, with problems as messages for a person.

Also shell completion from a server: ids, tenants, queues.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial, wraps
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from uuid import uuid4
from zoneinfo import ZoneInfo

import click

from agenda import errors as problems
from agenda.client import Pages
from agenda.connection import DEFAULT_URL, Connection, Reply, entry_path, token_in
from agenda.errors import AgendaError, ProblemError, ServerAwayError
from agenda.retries import Repeatable, Retries
from rdl.local_time import UTC_ZONE
from service.cli.kit.errors import CliError, ExitCode, code_of_answer

__all__ = ["NoAnswerError", "Server", "ServerReply", "as_messages", "client_options", "entry_path"]

F = TypeVar("F", bound=Callable[..., Any])

#: Pauses before a change is sent again, seconds: together a restart of the server and more.
_PAUSES_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)

#: Longest wait for what is only a hint below a list, seconds.
_HINT_S: Final = 2.0

#: A date, and perhaps a time of day, without a zone.
_CLOCK: Final = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?")


class NoAnswerError(CliError):
    """Nothing came back; `sent` says whether the request may have arrived."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message, ExitCode.AWAY)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class ServerReply(Reply):
    """An answer of a server, and its text for people."""

    @property
    def code(self) -> Any:
        """The code of a problem document; None where something else answered."""
        return self.body.get("code") if isinstance(self.body, dict) else None

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a command that only makes this call."""
        return code_of_answer(self.status, self.code)

    def good(self) -> Any:
        """Return the body of a call that succeeded.

        Raises
        ------
        CliError
            With the server's message, if the call failed.
        """
        if not self.ok:
            raise CliError(self.problem(), self.exit_code)
        return self.body

    def problem(self) -> str:
        """Return the server's message on a call that failed, as lines for a person."""
        if isinstance(self.body, dict) and ("detail" in self.body or "code" in self.body):
            return problem_text(self.body)
        return problems.status_text(self.status)


@dataclass(frozen=True)
class Server(Connection):
    """A server by its URL, and the token it wants, if any.

    Raises
    ------
    CliError
        For an invalid HTTP URL, or a token that no header can carry, naming what would be
        right; in calls, if nothing answers, or not as an Agenda server does.
    """

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        try:
            super().__post_init__()
        except AgendaError as error:
            hint = "" if "URL" in str(error) else "; check --token, AGENDA_TOKEN or --token-file"
            raise CliError(f"{error}{hint}") from error

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ServerReply:
        """Send one request as `Connection.call` does."""
        with as_messages():
            return self._shown(super().call(method, path, body, query, headers))

    def _shown(self, reply: Reply) -> ServerReply:
        if reply.status == HTTPStatus.UNAUTHORIZED:
            raise CliError(self.no_entry(reply.body), ExitCode.NOT_ALLOWED)
        return ServerReply(reply.status, reply.body, reply.tag)

    def no_entry(self, body: object) -> str:
        """Return the message for a missing or rejected token."""
        why = body.get("detail") if isinstance(body, dict) else None
        if not self.token and self.munge:
            return f"{self.url} does not accept the munge credential: {why or 'no reason given'}"
        if not self.token:
            return (
                f"{self.url} requires a token: set AGENDA_TOKEN, or give --token-file; its "
                "operator creates one with `agenda token create`"
            )
        return f"{self.url} does not accept the token: {why or 'it does not say why'}"

    def once(
        self,
        path: str,
        body: object,
        query: Mapping[str, object] | None = None,
        key: str | None = None,
    ) -> ServerReply:
        """Post a change that is made once, however often it has to be sent.

        A lost connection, and 503, leave open whether it was made. Sent again with the same
        Idempotency-Key, it returns the earlier answer, or is made now.

        Parameters
        ----------
        key
            The Idempotency-Key; one of its own when absent.

        Raises
        ------
        CliError
            As :meth:`call`; a server that is not there at first is not waited for.
        """
        headers = {"Idempotency-Key": key or uuid4().hex}
        retries = Retries(_PAUSES_S, patient=False, notice=_tell_retry)
        send = partial(super().call, "POST", path, body, query, headers)
        with as_messages():
            return self._shown(retries.answer(send, Repeatable.HARMLESS))

    def list_all(
        self, path: str, key: str, query: Mapping[str, object], limit: int | None = None
    ) -> list[dict[str, Any]]:
        """Return the entries of a server's list `key` from all pages, at most `limit`.

        If there are more, it reports so on standard error.

        Raises
        ------
        CliError
            If the server does not list them.
        """
        pages = Pages(lambda asked: self._page(path, key, asked), key, query, limit)
        entries = [dict(entry) for entry in pages]
        if pages.is_cut:
            click.echo(f"only the first {limit:,} are listed; see --limit", err=True)
        return entries

    def zone(self) -> str:
        """Return the zone in which people read times of its cluster."""
        body = self.call("GET", "/v1/cluster").body
        zone = body.get("zone") if isinstance(body, dict) else None
        return zone if isinstance(zone, str) else UTC_ZONE

    def instant(self, text: str | None) -> str | None:
        """Return a date, or a date with a time, by the cluster's clock as RFC 3339.

        ``2026-11-01`` is the midnight with which that day begins. Other times stay as they are: a
        server reads them and reports errors.
        """
        if text is None or _CLOCK.fullmatch(text.strip()) is None:
            return text
        try:
            local = datetime.fromisoformat(text.strip())
        except ValueError:
            return text
        return local.replace(tzinfo=ZoneInfo(self.zone())).isoformat()

    def attention(self) -> str:
        """Return the problems of the cluster in one line; empty if there are none, or no answer."""
        try:
            body = replace(self, timeout_s=_HINT_S).call("GET", "/v1/status").body
        except CliError:
            return ""
        wrong = body.get("attention") if isinstance(body, dict) else None
        return f"attention: {'; '.join(wrong)}: agenda status" if wrong else ""

    def _page(self, path: str, key: str, query: Mapping[str, object]) -> dict[str, Any]:
        body = self.call("GET", path, query=query).good()
        if not isinstance(body, dict) or key not in body:
            raise CliError(f"{self.url} lists no {key}; is it an Agenda server?")
        return body


def client_options(function: F) -> F:
    """Add the options of every client command, passed to the command as one `server: Server`."""

    @wraps(function)
    def with_server(
        *args: Any,
        server: str,
        token: str | None,
        token_file: Path | None,
        munge: str | None,
        **options: Any,
    ) -> Any:
        with as_messages():
            used = token if token or token_file is None else token_in(token_file)
        return function(*args, server=Server(server, used, munge=munge), **options)

    url = click.option(
        "--server", default=DEFAULT_URL, envvar="AGENDA_SERVER", show_default=True,
        show_envvar=True, help="The server's URL.",
    )  # fmt: skip
    token = click.option(
        "--token", envvar="AGENDA_TOKEN", show_envvar=True,
        help="Token for the server; other users may see it on a command line.",
    )  # fmt: skip
    token_file = click.option(
        "--token-file", envvar="AGENDA_TOKEN_FILE", show_envvar=True,
        type=click.Path(path_type=Path), help="File that contains only the token.",
    )  # fmt: skip
    munge = click.option(
        "--munge", envvar="AGENDA_MUNGE", show_envvar=True, metavar="SOCKET",
        help="Call as this user of the host by munged at this socket, without a token.",
    )  # fmt: skip
    return cast("F", url(token(token_file(munge(with_server)))))


def problem_text(body: Mapping[str, Any]) -> str:
    """Return a problem document as lines for who typed a command: parameters are options."""
    return problems.problem_text(body, lambda name: f"--{name.replace('_', '-')}")


def _tell_retry() -> None:
    click.echo("the server cannot answer now; trying again", err=True)


@contextmanager
def as_messages() -> Iterator[None]:
    """Inside, errors of the client library become messages for users."""
    try:
        yield
    except ServerAwayError as error:
        raise NoAnswerError(str(error), sent=error.sent) from error
    except ProblemError as error:
        reply = ServerReply(error.status, error.body)
        raise CliError(reply.problem(), reply.exit_code) from error
    except AgendaError as error:
        raise CliError(str(error)) from error


#: What can be completed -> the call that lists it, the key of its list, and that of a name.
_LISTED: Final = {
    "reservation": ("/v1/reservations", "reservations", "id"),
    "application": ("/v1/applications", "applications", "id"),
    "pipeline": ("/v1/pipelines", "pipelines", "id"),
    "hold": ("/v1/holds", "holds", "id"),
    "optimization": ("/v1/optimizations", "optimizations", "id"),
    "outage": ("/v1/cluster/outages", "outages", "id"),
    "webhook": ("/v1/webhooks", "webhooks", "id"),
    "tenant": ("/v1/tenants", "tenants", "name"),
    "queue": ("/v1/cluster", "queues", "name"),
    "policy": ("/v1/policies", "policies", "name"),
}

#: No one waits longer for a completion.
_COMPLETION_S: Final = 1.0

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def completing(kind: str) -> Completer:
    """Return a function that completes a word from the command's server.

    A server that does not answer within a second completes nothing.

    Parameters
    ----------
    kind
        Kind of the named object: reservation, application, pipeline, hold, optimization, outage,
        webhook, tenant, queue or policy.
    """
    path, key, name = _LISTED[kind]

    def complete(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
        try:
            reply = _connection(context.params).call("GET", path)
            listed = reply.body[key] if reply.status == 200 else []
            names = [one if isinstance(one, str) else one[name] for one in listed]
        except Exception:  # noqa: BLE001 - whatever is wrong, a shell is reported no error here
            return []
        return sorted(one for one in names if one.startswith(begun))

    return complete


def complete_state(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Return the states of reservations that a word begins."""
    from planner.reservations.state import State

    return [state.value for state in State if state.value.startswith(begun)]


def complete_execution_state(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Return the states of applications that a word begins."""
    from dispatch.executions.states import ExecutionState

    return [state.value for state in ExecutionState if state.value.startswith(begun)]


def _connection(given: dict[str, Any]) -> Connection:
    """Return the server that the words before name, by options or by the environment."""
    url = given.get("server") or os.environ.get("AGENDA_SERVER") or DEFAULT_URL
    token = given.get("token") or os.environ.get("AGENDA_TOKEN")
    file = given.get("token_file") or os.environ.get("AGENDA_TOKEN_FILE")
    if not token and file:
        token = token_in(Path(file))
    munge = given.get("munge") or os.environ.get("AGENDA_MUNGE")
    return Connection(url, token, timeout_s=_COMPLETION_S, munge=munge)
