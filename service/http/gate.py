"""Gate: authenticates and authorises the calls of all routes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agenda.munge import SCHEME, signed_text
from service.access.actor import Actor
from service.access.munge import CredentialError, CredentialReader, DaemonError
from service.access.rate_limit import RateLimit
from service.access.tenant_shares import TenantShares, share_of
from service.access.token import Token, name_fault
from service.access.user import ANYBODY, LOCAL_USER, User
from service.http.origin_check import refuse_foreign_page
from service.problems import ApiError, ApiProblemError, problem
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
            refuse_foreign_page(environ.get("HTTP_ORIGIN"), environ.get("HTTP_HOST"), self._own)
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
