"""Which addresses a webhook may have: no one has this server reach what only it can reach."""

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

#: IPv6 addresses of the public Internet (RFC 4291). Of all others only those of the well-known
#: prefix of NAT64 (RFC 6052) lead there; a prefix of a site's own must be allowed by name.
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")

#: Prefix of IPv4-compatible addresses, and the mark of ISATAP in front of the last 32 bits.
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_ISATAP: Final = 0x0000_5EFE


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
    """Return whether an address is of the public Internet, or of a network that is allowed.

    IPv4 addresses inside an IPv6 address are judged too: a gateway may lead to them.
    """
    if any(address in network for network in networks):
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast
    inside = _embedded(address)
    if not all(is_allowed(one, networks) for one in inside):
        return False
    # What a gateway leads to was judged; versions of Python differ about 6to4 itself.
    if address.ipv4_mapped is not None or address.sixtofour is not None or address in _NAT64:
        return True
    return address in _UNICAST and address.is_global


def _embedded(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """Return the IPv4 addresses that an IPv6 address holds."""
    number = int(address)
    low = ipaddress.IPv4Address(number & 0xFFFF_FFFF)
    found = [*(address.teredo or ()), address.ipv4_mapped, address.sixtofour]
    if address in _NAT64 or address in _COMPATIBLE or (number >> 32 & 0xFDFF_FFFF) == _ISATAP:
        found.append(low)
    return [one for one in found if one is not None]


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
