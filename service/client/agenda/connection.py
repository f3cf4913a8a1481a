"""HTTP calls with JSON bodies, using only the standard library."""

from __future__ import annotations

import ipaddress
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from agenda.errors import ForeignAnswerError, ServerAwayError, SettingError
from agenda.munge import SCHEME, credential, signed_text

DEFAULT_URL: Final = "http://127.0.0.1:8080"

#: Default timeout of a call, seconds.
DEFAULT_TIMEOUT_S: Final = 120.0

#: Statuses that a proxy may answer instead of the server, without a problem document.
_OF_PROXIES: Final = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a server.

    Attributes
    ----------
    status
        HTTP status.
    body
        The JSON value; None without a body.
    tag
        The ETag, in the form of If-Match; None if the answer has none.
    retry_after
        Seconds of Retry-After; None if the answer has none.
    """

    status: int
    body: Any
    tag: str | None = None
    retry_after: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.status < HTTPStatus.BAD_REQUEST


@dataclass(frozen=True, slots=True)
class Connection:
    """The URL of a server, and the token for it, if any.

    Attributes
    ----------
    munge
        Socket of this host's munged, whose credentials are sent if there is no token.

    Raises
    ------
    SettingError
        If the URL is not an HTTP URL, or the token cannot be sent in a header; in calls, if munged
        makes no credential.
    """

    url: str = DEFAULT_URL
    token: str | None = field(default=None, repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S
    munge: str | None = None

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        if not _is_url(self.url):
            raise SettingError(f"{self.url!r} is not a server's URL; write {DEFAULT_URL}")
        if self.token and not _is_plain(self.token):
            raise SettingError("a token consists of visible ASCII characters")

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send one request; refusals and other problem documents are returned as replies.

        Parameters
        ----------
        body
            A JSON value, or bytes with a Content-Type in `headers`; None sends none.
        query
            Parameters; those that are None are left out.

        Raises
        ------
        ServerAwayError
            If the server does not answer.
        ForeignAnswerError
            If the answer is not one of an Agenda server.
        """
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Accept": "application/json", "Content-Type": "application/json", **(headers or {})}
        request = self._request(method, path, data, query, sent)
        reply = self._answered(request)
        if reply.ok and not isinstance(reply.body, dict | None):
            raise ForeignAnswerError(
                f"{request.full_url} did not answer like an Agenda server; is it one?"
            )
        return reply

    def open_stream(
        self, path: str, query: Mapping[str, object], headers: Mapping[str, str], silence_s: float
    ) -> OpenStream | Reply:
        """Open a stream of server-sent events; a problem document is returned as a reply.

        Parameters
        ----------
        silence_s
            Seconds without data after which the connection counts as lost.

        Raises
        ------
        ServerAwayError
            If the server does not answer.
        ForeignAnswerError
            If the answer is not one of an Agenda server.
        """
        sent = {"Accept": "text/event-stream", **headers}
        request = self._request("GET", path, None, query, sent)
        try:
            response = self._opener().open(request, timeout=silence_s)
        except HTTPError as error:
            return self._reply(request.full_url, error.code, error.read(), error.headers)
        except (URLError, OSError, HTTPException) as error:
            raise self._away(error) from error
        if response.headers.get_content_type() != "text/event-stream":
            response.close()
            raise ForeignAnswerError(
                f"{request.full_url} did not answer with events; is it an Agenda server?"
            )
        return OpenStream(response)

    def _request(
        self,
        method: str,
        path: str,
        data: bytes | None,
        query: Mapping[str, object] | None,
        headers: Mapping[str, str],
    ) -> Request:
        url = self.url.rstrip("/") + path
        given = {name: value for name, value in (query or {}).items() if value is not None}
        if given:
            url += "?" + urlencode(given)
        request = Request(url, data, dict(headers), method=method)
        if self.token:
            # The token is not sent to a server that this one redirects to.
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        elif self.munge:
            text = signed_text(method, request.host, request.selector, data or b"")
            made = credential(self.munge, text)
            request.add_unredirected_header("Authorization", f"{SCHEME} {made}")
        return request

    def _opener(self) -> OpenerDirector:
        """Return the opener of URLs; loopback addresses bypass any proxy."""
        here = _is_loopback(urlsplit(self.url).hostname or "")
        direct = [ProxyHandler({})] if here else []
        return build_opener(*direct, _ReadsRedirected())

    def _answered(self, request: Request) -> Reply:
        try:
            try:
                with self._opener().open(request, timeout=self.timeout_s) as answer:
                    status, raw, headers = answer.status, answer.read(), answer.headers
            except HTTPError as error:
                status, raw, headers = error.code, error.read(), error.headers
        except (URLError, OSError, HTTPException) as error:
            raise self._away(error) from error
        return self._reply(request.full_url, status, raw, headers)

    def _reply(self, url: str, status: int, raw: bytes, headers: Message) -> Reply:
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            where = headers.get("Location") or "elsewhere"
            raise ForeignAnswerError(
                f"{url} redirects to {where}; give the URL of the server itself"
            )
        try:
            body = _json(raw, url)
        except ForeignAnswerError:
            if status not in _OF_PROXIES:
                raise
            body = None
        return Reply(status, body, headers.get("ETag"), _seconds(headers))

    def _away(self, error: Exception) -> ServerAwayError | ForeignAnswerError:
        if isinstance(error, IncompleteRead):
            return ServerAwayError(
                f"the connection to {self.url} was lost during the answer; try again", sent=True
            )
        if isinstance(error, HTTPException) and not isinstance(error, OSError):
            what = f"{type(error).__name__} {error}".strip()
            return ForeignAnswerError(
                f"{self.url} did not answer in HTTP ({what}); is it a server?"
            )
        reason = getattr(error, "reason", error)
        lost = isinstance(reason, ConnectionResetError | BrokenPipeError)
        said = f"no answer from {self.url} ({reason}); is `agenda serve` running?"
        return ServerAwayError(said, sent=lost or not isinstance(error, URLError))


class OpenStream:
    """An open stream of lines; any thread may close it."""

    def __init__(self, response: HTTPResponse) -> None:
        self._response = response
        # A duplicate of its TCP socket, below TLS: shutting it down wakes a reading thread.
        self._socket = socket.fromfd(response.fileno(), socket.AF_INET, socket.SOCK_STREAM)

    def __iter__(self) -> Iterator[bytes]:
        """Yield lines.

        Raises
        ------
        OSError
            If the stream is interrupted, or the server sends nothing for too long.
        """
        try:
            yield from self._response
        except (HTTPException, ValueError) as error:
            raise ConnectionError("the stream was interrupted") from error
        finally:
            self._response.close()
            self._socket.close()

    def close(self) -> None:
        """End the stream; a thread that reads it is woken and reaches its end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class _ReadsRedirected(HTTPRedirectHandler):
    """Follows redirects of reads only: urllib would turn a redirected change into a read."""

    def redirect_request(self, req: Request, *where: Any) -> Request | None:
        """Return the next request, or None to return the answer."""
        return super().redirect_request(req, *where) if req.get_method() == "GET" else None


def connection_of(
    url: str | None = None,
    token: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    environment: Mapping[str, str] = os.environ,
) -> Connection:
    """Return a connection; missing settings are taken from the environment.

    AGENDA_SERVER is the URL, AGENDA_TOKEN the token, AGENDA_TOKEN_FILE a file with the token, and
    AGENDA_MUNGE the socket of munged, whose credentials replace a token.

    Raises
    ------
    SettingError
        If the URL, the token or the file is invalid.
    """
    used = token or environment.get("AGENDA_TOKEN")
    file = environment.get("AGENDA_TOKEN_FILE")
    if not used and file:
        used = token_in(Path(file))
    url = url or environment.get("AGENDA_SERVER") or DEFAULT_URL
    return Connection(url, used, timeout_s, environment.get("AGENDA_MUNGE"))


def token_in(path: Path) -> str:
    """Return the token in a file.

    Raises
    ------
    SettingError
        If the file cannot be read or is empty.
    """
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise SettingError(f"the token file {path} cannot be read: {why}") from error
    if not text:
        raise SettingError(f"the token file {path} is empty")
    return text


def entry_path(path: str, id_: str) -> str:
    """Return the path of one entry of a list, by its id."""
    return f"{path}/{quote(id_, safe='')}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and bool(parts.hostname)
        return known and parts.port != 0 and _is_plain(text)
    except ValueError:  # an unclosed bracket, or a port that is not a number or too large
        return False


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _seconds(headers: Message) -> float | None:
    """Return the seconds of Retry-After; None if it is absent or a date."""
    try:
        return max(0.0, float(headers.get("Retry-After") or ""))
    except ValueError:
        return None


def _json(raw: bytes, url: str) -> Any:
    if not raw:
        return None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ForeignAnswerError(
            f"{url} did not answer in JSON; is it an Agenda server?"
        ) from error
