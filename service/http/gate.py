"""Gate: keeps out foreign pages, and authenticates and authorises the calls of all routes."""

from __future__ import annotations

import ipaddress
import math
import pwd
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from agenda.munge import SCHEME, signed_text
from service.access.rate_limit import RateLimit, TenantShares, share_of
from service.access.token import Token, name_fault
from service.access.user import ANYBODY, LOCAL_USER, Actor, User
from service.config import is_loopback
from service.problems import ApiError, ApiProblemError, ProblemDocument, problem
from service.store.engine import UNAVAILABLE
from service.store.tokens import key_of_host_user, key_of_name, key_of_secret

if TYPE_CHECKING:
    from service.http.route import Route
    from service.runtime import Runtime


Environ: TypeAlias = dict[str, Any]

_BEARER: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([!-~]{1,512}) *")

#: Longest recorded address, and longest name given by a proxy.
_LONGEST: Final = 64
_LONGEST_NAME: Final = 128

#: Size of a large request in bytes; smaller ones need no place.
_LARGE: Final = 1_000_000

_MUNGE: Final = re.compile(rf"(?i:{SCHEME}) +([!-~]{{1,8192}}) *")

_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="agenda"'}
_BAD_TOKEN: Final = {"WWW-Authenticate": 'Bearer realm="agenda", error="invalid_token"'}

#: Most credentials that are decoded at the same time: anyone may send one.
_MOST: Final = 4
_WAIT_S: Final = 5.0

#: Longest wait for others' credentials, seconds: a healthy daemon decodes one in milliseconds, and
#: calls that wait take threads from users with tokens.
_TURN_S: Final = 0.5

#: Exit codes of ``unmunge`` if it does not reach the daemon, or gets no answer.
_NO_DAEMON: Final = (6, 7)

#: Most characters of a foreign Host in a message.
_LONGEST_HOST: Final = 100
_PORTS: Final = {"http": 80, "https": 443}

#: Hosts that mean every address of the machine.
_EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})


class Gate:
    """Authenticates callers.

    Parameters
    ----------
    runtime
        Has the tokens and the time, and the setting whether tokens are required.
    rates
        Counts the calls of each user.
    """

    def __init__(self, runtime: Runtime, rates: RateLimit) -> None:
        config = runtime.config
        self._open = config.auth == "none"
        self._own = (config.host, *config.names)
        self._proxies = frozenset(config.proxies)
        header = config.trusted_header
        self._header = None if header is None else f"HTTP_{header.upper().replace('-', '_')}"
        self._munge = None if config.munge is None else CredentialReader(config.munge)
        self._max_body = config.max_body
        self._rates = rates
        self._large = TenantShares(max(1, config.threads // 2))
        self._book = runtime.token_book
        self._now_ms = runtime.clock_ms

    def admit(self, route: Route, environ: Environ) -> Actor:
        """Return the actor of a call.

        Raises
        ------
        ApiProblemError
            ``unauthenticated``, ``forbidden``, ``foreign_origin``, ``too_many``.
        """
        if route.method != "GET":
            _refuse_foreign_page(environ.get("HTTP_ORIGIN"), environ.get("HTTP_HOST"), self._own)
        user, key = self._user(route, environ)
        if route.role is not None and user.role < route.role:
            detail = f"this call is for an {route.role.word}; {user.name!r} is {user.role.word}"
            raise problem("forbidden", detail)
        return Actor(user, self._address(environ), f"{route.method} {environ['PATH_INFO']}", key)

    @contextmanager
    def place_for(self, environ: Environ, user: User) -> Iterator[None]:
        """Hold one of the places for large requests; a small one needs none.

        Reading a large request may occupy a thread for seconds: at most half of the threads do
        that, and half of these for one tenant.

        Raises
        ------
        ApiProblemError
            ``too_many`` if there is none.
        """
        if not _is_large(environ):
            yield
            return
        if not self._large.take(user):
            most = self._large.most
            detail = (
                f"{most} requests above {_LARGE} bytes or in chunks are read at the same time, and "
                f"{share_of(most)} of one tenant; try again"
            )
            raise problem("too_many", detail, headers={"Retry-After": "1"})
        try:
            yield
        finally:
            self._large.give_back(user)

    def _user(self, route: Route, environ: Environ) -> tuple[User, str]:
        """Return the user on whose behalf a call is made, and the key of the token."""
        if route.role is None:
            return ANYBODY, ""
        if self._open:
            return LOCAL_USER, ""
        given = environ.get("HTTP_AUTHORIZATION")
        if given is None:
            key = self._proxy_user_key(environ)
        elif self._munge is not None and (made := _MUNGE.fullmatch(given)) is not None:
            key = _host_user_key(self._munge, made[1], environ, self._max_body)
        else:
            key = self._token_key(given)
        if key is None:
            error = ApiError("send Authorization: Bearer TOKEN", "unauthenticated", "Authorization")
            raise problem("unauthenticated", "this call needs a token", [error], _CHALLENGE)
        unknown = (
            "the proxy names a user who has no token, or tokens of different rights"
            if given is None
            else "the token is unknown to this server"
        )
        now_ms = self._now_ms()
        user = _good(self._token(route, key, now_ms), now_ms, unknown).user
        wait_s = self._rates.wait_of(user.identity)
        if wait_s:
            detail = f"{user.name!r} exceeds the rate limit; wait a moment"
            raise problem("too_many", detail, headers={"Retry-After": str(math.ceil(wait_s))})
        return user, key

    def _token(self, route: Route, key: str, now_ms: int) -> Token | None:
        """Return the token of a key; for live routes the cached one, if the database is down.

        So operators can see what happens meanwhile.
        """
        try:
            return self._book.of_key(key, now_ms)
        except UNAVAILABLE:
            token = self._book.remembered(key) if route.live else None
            if token is None:
                raise
            return token

    @staticmethod
    def _token_key(given: str) -> str:
        """Return the key of the token in a call."""
        match = _BEARER.fullmatch(given)
        if match is None:
            raise _no_such_token("send Authorization: Bearer TOKEN")
        return key_of_secret(match[1])

    def _proxy_user_key(self, environ: Environ) -> str | None:
        """Return the key of the user given by a trusted proxy, or None."""
        if self._header is None or environ.get("REMOTE_ADDR") not in self._proxies:
            return None
        name = environ.get(self._header)
        if name is not None and len(name) > _LONGEST_NAME:
            raise _no_such_token("the proxy names a user who has no token")
        return None if name is None else key_of_name(name)

    def _address(self, environ: Environ) -> str:
        """Return the client address of a call, behind a trusted proxy the forwarded one."""
        address = str(environ.get("REMOTE_ADDR", ""))
        if address in self._proxies:
            last = str(environ.get("HTTP_X_FORWARDED_FOR", "")).rpartition(",")[2].strip()
            address = last or address
        return address[:_LONGEST]


def _host_user_key(
    munge: CredentialReader, credential: str, environ: Environ, max_body: int
) -> str:
    """Return the key of the user of this host who made the credential of a call.

    The body is read, because the credential contains its digest, and put back.
    """
    body = environ["wsgi.input"].read(_length_of(environ, max_body))
    environ["wsgi.input"] = BytesIO(body)
    host = environ.get("HTTP_HOST", "")
    text = signed_text(environ["REQUEST_METHOD"], host, environ["RAW_URI"], body)
    try:
        name = munge.user_of(credential, text)
    except CredentialError as error:
        raise _no_such_token(f"the credential is not valid: {error}") from error
    except DaemonError as error:
        detail = f"munge cannot decode the credential now: {error}"
        raise problem("unavailable", detail, headers={"Retry-After": "1"}) from error
    if (fault := name_fault(name)) is not None:
        raise _no_such_token(fault)
    return key_of_host_user(name)


def _length_of(environ: Environ, max_body: int) -> int:
    """Return how many bytes of the body to read: all, or one more than is allowed."""
    if "HTTP_TRANSFER_ENCODING" in environ:
        return max_body + 1
    length = environ.get("CONTENT_LENGTH") or ""
    is_number = length.isdecimal() and length.isascii()
    return min(int(length[:20]), max_body + 1) if is_number else 0


def _is_large(environ: Environ) -> bool:
    length = environ.get("CONTENT_LENGTH") or ""
    return "HTTP_TRANSFER_ENCODING" in environ or (
        length.isdecimal() and length.isascii() and int(length[:20]) > _LARGE
    )


def _good(token: Token | None, now_ms: int, unknown: str) -> Token:
    fault = unknown if token is None else token.fault(now_ms)
    if token is None or fault is not None:
        assert fault is not None
        raise _no_such_token(fault)
    return token


def _no_such_token(why: str) -> ApiProblemError:
    error = ApiError(why, "unauthenticated", pointer="Authorization")
    return problem("unauthenticated", why, [error], _BAD_TOKEN)


class CredentialError(Exception):
    """The credential is not valid for this call; the message says why."""


class DaemonError(Exception):
    """The credential could not be decoded now: the daemon is unavailable or busy."""


class CredentialReader:
    """Decodes credentials with ``unmunge``; any thread may call it.

    Parameters
    ----------
    socket
        The socket of this host's munged.
    """

    def __init__(self, socket: str) -> None:
        self._command = ("unmunge", "--socket", socket, "--keys", "UID", "--numeric")
        self._places = threading.BoundedSemaphore(_MOST)

    def user_of(self, credential: str, text: str) -> str:
        """Return the name of the user who made a credential of a text.

        Raises
        ------
        CredentialError
            If it is forged, too old, used before, of another text, or of an unknown user.
        DaemonError
            If munged is unavailable, or busy with other credentials.
        """
        if not self._places.acquire(timeout=_TURN_S):
            raise DaemonError(f"{_MOST} other credentials are being decoded")
        try:
            done = subprocess.run(
                self._command,
                input=credential,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_WAIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DaemonError(str(error)) from error
        finally:
            self._places.release()
        if done.returncode in _NO_DAEMON:
            raise DaemonError(_reason(done.stderr))
        if done.returncode:
            raise CredentialError(_reason(done.stderr))
        head, _, payload = done.stdout.partition("\n\n")
        if payload != text:
            raise CredentialError("it was made for another call or another server")
        uid = int(head.partition(":")[2])
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            raise CredentialError(f"this host has no user {uid}") from None


def _reason(printed: str) -> str:
    """Return the output of ``unmunge``, without its own name."""
    return printed.strip().removeprefix("unmunge: Error: ").lower()


def is_own_host(names: tuple[str, ...], host: str) -> bool:
    """Return whether a Host is this machine's loopback or one of `names`, with any port.

    If the server listens on every address, any address is its own: a foreign page can only use a
    name that points here.
    """
    return _is_own(names, f"//{host}")


def _is_own(names: tuple[str, ...], url: str) -> bool:
    try:
        name = urlsplit(url).hostname or ""
    except ValueError:
        return False
    own = {one.strip("[]").lower() for one in names}
    return is_loopback(name) or name in own or (bool(own & _EVERY_ADDRESS) and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def foreign_host(host: str) -> ProblemDocument:
    """Return the answer to a request for another server.

    A foreign page may let its own name point to this machine (DNS rebinding); the browser then
    treats this server's answers as the page's own, unless the server checks the name in the
    request.
    """
    detail = f"this server does not answer requests for {host[:_LONGEST_HOST]!r}"
    fix = "ask 127.0.0.1, [::1] or localhost, or start the server with --name"
    return ProblemDocument(
        "foreign_host", detail, (ApiError(detail, "foreign_host", "Host", None, fix),)
    )


def _refuse_foreign_page(origin: str | None, host: str | None, names: tuple[str, ...]) -> None:
    """Refuse a change that a browser sends for a foreign page.

    Without tokens, anyone who reaches this server may change the Plan, and a browser on this
    machine reaches it for any page it shows. Browsers send the page's origin with every change;
    other clients send none.

    Parameters
    ----------
    origin
        The header Origin, or None if there is none.
    host
        The header Host: the page must have the same port, unless it is behind a proxy that has its
        own name and does not forward the port.
    names
        Names of this server apart from loopback.

    Raises
    ------
    ApiProblemError
        ``foreign_origin``.
    """
    if origin is not None and not (_is_own(names, origin) and _is_same_port(origin, host)):
        error = ApiError("changes come from pages of this server only", "foreign_origin", "Origin")
        raise problem("foreign_origin", f"a page of {origin!r} may not make changes here", [error])


def _is_same_port(origin: str, host: str | None) -> bool:
    """Return whether an origin belongs to the server in the Host header."""
    try:
        page, server = urlsplit(origin), urlsplit(f"//{host or ''}")
        page_port = page.port or _PORTS.get(page.scheme)
        server_port = server.port
    except ValueError:
        return False
    if not is_loopback(page.hostname or "") and page.hostname != server.hostname:
        return True  # a proxy uses another name; this one is given with --name
    if server_port is None and not is_loopback(page.hostname or ""):
        return True  # a proxy that forwards the name without its port
    return page_port == (server_port or _PORTS["http"])
