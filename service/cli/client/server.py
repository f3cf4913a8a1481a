"""A small client of Agenda's HTTP API: JSON in, JSON out, problems as messages."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from http import HTTPStatus
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from typing import Any, Final, TypeVar, cast
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener
from uuid import uuid4

import click

from service.cli.terminal.errors import CliError
from service.config import is_loopback

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_SERVER: Final = "http://127.0.0.1:8080"
_TIMEOUT_S: Final = 120.0
_SHOWN_ERRORS: Final = 10

#: Pauses before a change is sent again, seconds: together a restart of the server and more.
_PAUSES_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)

#: Entries that a page of a list holds at most.
_PAGE: Final = 1000


class NoAnswerError(CliError):
    """Nothing came back; `sent` says whether the request may have arrived."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class ServerReply:
    """The status and the body that a server answered.

    Attributes
    ----------
    status
        HTTP status.
    body
        The JSON value, or None when there is none.
    tag
        The ETag, as If-Match takes it; None where the answer has none.
    """

    status: int
    body: Any
    tag: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.status < 400

    def good(self) -> Any:
        """Return the body of a call that succeeded.

        Raises
        ------
        CliError
            With the server's message, if the call failed.
        """
        if not self.ok:
            raise CliError(self.problem())
        return self.body

    def problem(self) -> str:
        """Return the server's message on a call that failed, as lines for a person."""
        if isinstance(self.body, dict) and ("detail" in self.body or "code" in self.body):
            return problem_text(self.body)
        return f"the server answered {_phrase(self.status)} without saying why"


@dataclass(frozen=True, slots=True)
class Server:
    """A server by its URL, and the token it wants, if any."""

    url: str = DEFAULT_SERVER
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Refuse what is not an HTTP URL, and a token that no header can carry.

        Raises
        ------
        CliError
            Naming what would be right.
        """
        if not _is_url(self.url):
            raise CliError(f"{self.url!r} is not a server's URL; write {DEFAULT_SERVER}")
        if self.token and not _is_plain(self.token):
            raise CliError(
                "a token is of visible ASCII characters; look at --token, AGENDA_TOKEN or "
                "--token-file"
            )

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ServerReply:
        """Send one request; refusals and other problem documents come back as replies.

        Parameters
        ----------
        body
            A JSON value, or bytes with a Content-Type in `headers`; None sends none.
        query
            Parameters; those that are None are left out.

        Raises
        ------
        CliError
            If nothing answers, or not as an Agenda server does.
        """
        url = self.url.rstrip("/") + path
        given = {name: value for name, value in (query or {}).items() if value is not None}
        if given:
            url += "?" + urlencode(given)
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Accept": "application/json", "Content-Type": "application/json", **(headers or {})}
        request = Request(url, data, sent, method=method)
        if self.token:
            # Whoever this server sends us on to is not told.
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        status, raw, tag = self._sent(request)
        if status == HTTPStatus.UNAUTHORIZED:
            raise CliError(self._no_entry(raw))
        value = _json(raw, url)
        if status < HTTPStatus.BAD_REQUEST and not isinstance(value, dict | None):
            raise CliError(f"{url} did not answer like an Agenda server; is it one?")
        return ServerReply(status, value, tag)

    def _no_entry(self, raw: bytes) -> str:
        """Return what to say where the server does not take the token, or there is none."""
        if not self.token:
            return (
                f"{self.url} asks for a token: set AGENDA_TOKEN, or give --token-file; its "
                "operator makes one with `agenda token create`"
            )
        why = None
        with suppress(CliError):
            value = _json(raw, self.url)
            why = value.get("detail") if isinstance(value, dict) else None
        return f"{self.url} does not take the token: {why or 'it does not say why'}"

    def once(
        self, path: str, body: object, query: Mapping[str, object] | None = None
    ) -> ServerReply:
        """Post a change that is made once, however often it has to be sent.

        A lost connection, and 503, leave open whether it was made. Sent again under the same
        Idempotency-Key it is told what came of it, or made now.

        Raises
        ------
        CliError
            As :meth:`call`; a server that is not there at first is not waited for.
        """
        key = {"Idempotency-Key": uuid4().hex}
        lost = False
        for pause in _PAUSES_S:
            try:
                reply = self.call("POST", path, body, query, key)
                if reply.status != HTTPStatus.SERVICE_UNAVAILABLE:
                    return reply
            except NoAnswerError as error:
                if not error.sent and not lost:
                    raise
            if not lost:
                click.echo("the server cannot answer now; trying again", err=True)
            lost = True
            time.sleep(pause)
        return self.call("POST", path, body, query, key)

    def _sent(self, request: Request) -> tuple[int, bytes, str | None]:
        """Return status, body and ETag; this machine is asked directly, past any proxy."""
        here = is_loopback(urlsplit(self.url).hostname or "")
        opener = build_opener(ProxyHandler({})) if here else build_opener()
        try:
            try:
                with opener.open(request, timeout=_TIMEOUT_S) as answer:
                    return answer.status, answer.read(), answer.headers["ETag"]
            except HTTPError as error:
                return error.code, error.read(), error.headers["ETag"]
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            said = f"no answer from {self.url} ({reason}); is `agenda serve` up?"
            lost = isinstance(reason, ConnectionResetError | BrokenPipeError)
            raise NoAnswerError(said, sent=lost or not isinstance(error, URLError)) from error
        except IncompleteRead as error:
            raise NoAnswerError(
                f"the answer of {self.url} broke off; try again", sent=True
            ) from error
        except HTTPException as error:
            what = f"{type(error).__name__} {error}".strip()
            raise CliError(
                f"{self.url} did not answer in HTTP ({what}); is it a server?"
            ) from error

    def listed(
        self, path: str, key: str, query: Mapping[str, object], limit: int | None = None
    ) -> list[dict[str, Any]]:
        """Return what a server lists under `key`, page after page, at most `limit` entries.

        Raises
        ------
        CliError
            If the server does not list them.
        """
        entries: list[dict[str, Any]] = []
        cursor: str | None = None
        while limit is None or len(entries) < limit:
            page = _PAGE if limit is None else min(_PAGE, limit - len(entries))
            body = self.call("GET", path, query={**query, "cursor": cursor, "limit": page}).good()
            entries += body[key]
            cursor = body["next"]
            if cursor is None:
                break
        return entries


def client_options(function: F) -> F:
    """Add what every client command takes, given to the command as one `server: Server`."""

    @wraps(function)
    def with_server(
        *args: Any, server: str, token: str | None, token_file: Path | None, **options: Any
    ) -> Any:
        used = token if token or token_file is None else _token_in(token_file)
        return function(*args, server=Server(server, used), **options)

    url = click.option(
        "--server", default=DEFAULT_SERVER, envvar="AGENDA_SERVER", show_default=True,
        show_envvar=True, help="The server's URL.",
    )  # fmt: skip
    token = click.option(
        "--token", envvar="AGENDA_TOKEN", show_envvar=True,
        help="Token that the server asks for; on a command line others may see it.",
    )  # fmt: skip
    token_file = click.option(
        "--token-file", envvar="AGENDA_TOKEN_FILE", show_envvar=True,
        type=click.Path(path_type=Path), help="File that holds the token alone.",
    )  # fmt: skip
    return cast("F", url(token(token_file(with_server))))


def _token_in(path: Path) -> str:
    """Return the token that a file holds.

    Raises
    ------
    CliError
        If it cannot be read, or holds nothing.
    """
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise CliError(f"the token file {path} cannot be read: {why}") from error
    if not text:
        raise CliError(f"the token file {path} is empty")
    return text


def entry_path(path: str, id_: str) -> str:
    """Return the path of one entry of a list, by its id."""
    return f"{path}/{quote(id_, safe='')}"


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
        return known and parts.port != 0 and _is_plain(text)
    except ValueError:  # brackets that do not close, a port that is no number or too large
        return False


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _phrase(status: int) -> str:
    names = {one.value: one.phrase for one in HTTPStatus}
    return f"{status} {names.get(status, '')}".strip()


def _json(raw: bytes, url: str) -> Any:
    if not raw:
        return None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise CliError(f"{url} did not answer in JSON; is it an Agenda server?") from error


def problem_text(body: Mapping[str, Any]) -> str:
    """Return a problem document (docs/api.md) as lines for a person."""
    title, detail = body.get("title") or "refused", body.get("detail") or body.get("code")
    errors = body.get("errors") or []
    if len(errors) == 1 and errors[0].get("message") == detail:  # said once is enough
        return f"{title}: {_entry_text(errors[0])}"
    lines = [f"{title}: {detail}"]
    lines += [f"  {_entry_text(entry)}" for entry in errors[:_SHOWN_ERRORS]]
    if len(errors) > _SHOWN_ERRORS:
        lines.append(f"  and {len(errors) - _SHOWN_ERRORS} more")
    return "\n".join(lines)


def _entry_text(entry: Mapping[str, Any]) -> str:
    pointer, message = entry.get("pointer") or "", entry.get("message", "")
    if pointer.startswith("?"):  # a parameter of the query, which an option has set
        name = pointer[1:]
        pointer, message = f"--{name.replace('_', '-')}", message.removeprefix(f"{name}: ")
    where = f"{pointer}: " if pointer else ""
    fix = f"; {entry['fix']}" if entry.get("fix") else ""
    return f"{where}{message}{fix}"
