"""Reading a server's events as they come, and coming back where a stream breaks off."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import click

from service.cli.client.server import NoAnswerError, Server, problem_text
from service.cli.terminal.errors import CliError
from service.config import is_loopback

#: Seconds without a word after which a server counts as gone: it says something every 15.
_SILENCE_S: Final = 45.0

#: Pause before a client comes back, seconds; and answers of a server that comes up or is full.
_PAUSE_S: Final = 1.0
_LATER: Final = (429, 503)


@dataclass(frozen=True, slots=True)
class ToldEvent:
    """One event that a server told."""

    kind: str
    data: dict[str, Any]


class ServerEvents:
    """The events of a server, from one connection to the next.

    Parameters
    ----------
    query
        Of ``GET /v1/events``.
    until
        When to stop, by the steady clock; None: never.
    """

    def __init__(self, server: Server, query: Mapping[str, str], until: float | None) -> None:
        self._server = server
        self._query = dict(query)
        self._until = until
        self._last: str | None = None

    def __iter__(self) -> Iterator[ToldEvent]:
        """Yield events; a server that goes away is waited for, if it was there at first.

        Raises
        ------
        CliError
            If the server refuses, or is not there at first.
        """
        while not self._is_over():
            try:
                with self._opened() as answer:
                    yield from self._told(answer)
            except NoAnswerError as error:
                if self._last is None:
                    raise
                click.echo(f"{error}; trying again", err=True)
            except (OSError, HTTPException):
                click.echo("the stream broke off; going on behind the last event", err=True)
            if not self._is_over():
                time.sleep(_PAUSE_S)

    def _is_over(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until

    def _opened(self) -> HTTPResponse:
        query = dict(self._query)
        if self._until is not None:
            query["wait"] = f"{max(0.001, self._until - time.monotonic()):.3f}"
        sent = {"Accept": "text/event-stream"}
        if self._last is not None:
            sent["Last-Event-ID"] = self._last
        if self._server.token:
            sent["Authorization"] = f"Bearer {self._server.token}"
        url = f"{self._server.url}/v1/events" + (f"?{urlencode(query)}" if query else "")
        here = is_loopback(urlsplit(self._server.url).hostname or "")
        opener = build_opener(ProxyHandler({})) if here else build_opener()
        try:
            answer: HTTPResponse = opener.open(Request(url, headers=sent), timeout=_SILENCE_S)
            return answer
        except HTTPError as error:
            said = _problem(error)
            if error.code in _LATER and self._last is not None:
                raise NoAnswerError(said, sent=False) from error
            raise CliError(said) from error
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            said = f"no answer from {self._server.url} ({reason}); is `agenda serve` up?"
            raise NoAnswerError(said, sent=False) from error

    def _told(self, lines: Iterable[bytes]) -> Iterator[ToldEvent]:
        """Read fields up to each empty line (WHATWG HTML, 9.2.6)."""
        fields: dict[str, str] = {}
        for raw in lines:
            line = raw.decode().rstrip("\r\n")
            if line:
                name, _, value = line.partition(":")
                fields[name] = value.removeprefix(" ")
                continue
            self._last = fields.get("id", self._last)
            if "data" in fields:
                yield ToldEvent(fields.get("event", "message"), json.loads(fields["data"]))
            fields = {}


def _problem(error: HTTPError) -> str:
    try:
        return problem_text(json.loads(error.read()))
    except ValueError:
        return f"the server answered {error.code}; has it events?"
