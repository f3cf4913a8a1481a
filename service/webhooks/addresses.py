"""Allowed addresses of webhooks: the server must not be used to reach internal hosts."""

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

#: IPv6 addresses of the public Internet (RFC 4291). Of all others only the well-known NAT64 prefix
#: (RFC 6052) leads there; a site's own prefix must be allowed explicitly.
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")

#: Prefix of IPv4-compatible addresses, and the mark of ISATAP in front of the last 32 bits.
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_ISATAP: Final = 0x0000_5EFE


class AddressError(ValueError):
    """A URL that is not allowed; the message says why."""


@dataclass(frozen=True, slots=True)
class WebhookUrl:
    """The parts of a URL needed for sending."""

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
        If it is not a plain http or https URL.
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
        raise AddressError("a URL with a user, a password or a fragment is not allowed")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebhookUrl(
        parts.scheme, parts.hostname, port or _PORTS[parts.scheme], target, parts.netloc
    )


def read_networks(given: Sequence[str]) -> tuple[IpNetwork, ...]:
    """Return networks such as 10.0.0.0/8.

    Raises
    ------
    ValueError
        If one is not a network.
    """
    return tuple(ipaddress.ip_network(one) for one in given)


def is_allowed(address: IpAddress, networks: Sequence[IpNetwork]) -> bool:
    """Return whether an address is on the public Internet, or in an allowed network.

    IPv4 addresses embedded in an IPv6 address are checked too: a gateway may lead to them.
    """
    if any(address in network for network in networks):
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast
    inside = _embedded(address)
    if not all(is_allowed(one, networks) for one in inside):
        return False
    # The target of a gateway was checked above; versions of Python differ about 6to4 itself.
    if address.ipv4_mapped is not None or address.sixtofour is not None or address in _NAT64:
        return True
    return address in _UNICAST and address.is_global


def _embedded(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """Return the IPv4 addresses embedded in an IPv6 address."""
    number = int(address)
    low = ipaddress.IPv4Address(number & 0xFFFF_FFFF)
    found = [*(address.teredo or ()), address.ipv4_mapped, address.sixtofour]
    if address in _NAT64 or address in _COMPATIBLE or (number >> 32 & 0xFDFF_FFFF) == _ISATAP:
        found.append(low)
    return [one for one in found if one is not None]


def require_allowed(url: WebhookUrl, networks: Sequence[IpNetwork]) -> None:
    """Refuse a literal address that is not allowed; names are checked when sending.

    Raises
    ------
    AddressError
        With advice.
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
    """Return the address to connect to; all addresses of the name must be allowed.

    Raises
    ------
    AddressError
        If one is not.
    OSError
        If the name has no address.
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
