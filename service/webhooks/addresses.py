"""Which addresses a webhook may have: nobody has this server reach what only it can reach."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_PORTS: Final = {"http": 80, "https": 443}
_LONGEST: Final = 2000


class AddressError(ValueError):
    """A URL that is not told anything; the message says why."""


@dataclass(frozen=True, slots=True)
class WebhookUrl:
    """The parts of a URL that are needed to send to it."""

    scheme: str
    host: str
    port: int
    target: str
    authority: str


def read_url(url: str) -> WebhookUrl:
    """Return the parts of a URL.

    Raises
    ------
    AddressError
        If it is not plain http or https.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise AddressError(f"not a URL: {error}") from error
    plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= _LONGEST
    if parts.scheme not in _PORTS or not parts.hostname or not plain or port == 0:
        raise AddressError("write a URL such as https://example.org/agenda")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise AddressError("a URL with a user, a password or a fragment is not told anything")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebhookUrl(
        parts.scheme, parts.hostname, port or _PORTS[parts.scheme], target, parts.netloc
    )


def read_networks(given: Sequence[str]) -> tuple[IpNetwork, ...]:
    """Return networks such as 10.0.0.0/8.

    Raises
    ------
    ValueError
        If one is none.
    """
    return tuple(ipaddress.ip_network(one) for one in given)


def is_allowed(address: IpAddress, networks: Sequence[IpNetwork]) -> bool:
    """Return whether an address is of the public Internet, or of a network that is allowed."""
    mapped = getattr(address, "ipv4_mapped", None)
    address = address if mapped is None else mapped
    if any(address in network for network in networks):
        return True
    return address.is_global and not address.is_multicast


def require_allowed(url: WebhookUrl, networks: Sequence[IpNetwork]) -> None:
    """Refuse an address that is written out and not allowed; names are judged when it is sent.

    Raises
    ------
    AddressError
        Saying what to do.
    """
    try:
        address = ipaddress.ip_address(url.host)
    except ValueError:
        if url.host == "localhost" or url.host.endswith(".localhost"):
            address = ipaddress.ip_address("127.0.0.1")
        else:
            return
    if not is_allowed(address, networks):
        raise AddressError(_refusal(url.host))


def resolve(url: WebhookUrl, networks: Sequence[IpNetwork]) -> str:
    """Return the address to connect to; each that the name has must be allowed.

    Raises
    ------
    AddressError
        If one is not.
    OSError
        If the name has none.
    """
    found = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    addresses = [str(one[4][0]) for one in found]
    for address in addresses:
        if not is_allowed(ipaddress.ip_address(address.partition("%")[0]), networks):
            raise AddressError(_refusal(address))
    return addresses[0]


def _refusal(address: str) -> str:
    return (
        f"{address} is not an address of the public Internet; its network must be allowed with "
        "agenda serve --webhook-network"
    )
