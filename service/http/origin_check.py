"""Checks of Host and Origin that keep out pages of other sites."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from service.config import is_loopback
from service.problems import ApiError, ProblemDocument, problem

#: Most characters of a foreign Host in a message.
_LONGEST_HOST: Final = 100


_PORTS: Final = {"http": 80, "https": 443}

#: Hosts that mean every address of the machine.
_EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})


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


def refuse_foreign_page(origin: str | None, host: str | None, names: tuple[str, ...]) -> None:
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
