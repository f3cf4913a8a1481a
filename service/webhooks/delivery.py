"""One attempt to deliver: a signed POST, to the very address that was judged."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import ssl
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from typing import Final

from service.webhooks.addresses import AddressError, IpNetwork, read_url, resolve

#: Seconds that a receiver may take for each step.
TIMEOUT_S: Final = 10.0

#: What a secret begins with, as Standard Webhooks has it.
_PREFIX: Final = "whsec_"
_SECRET_BYTES: Final = 24


def new_secret() -> str:
    """Return a secret that nobody has."""
    return _PREFIX + base64.b64encode(os.urandom(_SECRET_BYTES)).decode()


def signature_of(secret: str, id_: str, at_s: int, body: bytes) -> str:
    """Return the signature of a delivery, as Standard Webhooks has it: ``v1,<base64>``.

    Parameters
    ----------
    at_s
        Unix time of the attempt, seconds.
    """
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = f"{id_}.{at_s}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def post(url: str, headers: dict[str, str], body: bytes, networks: Sequence[IpNetwork]) -> str:
    """Send a body; return why it was not taken, empty where it was.

    Redirects are not followed: where they lead was not judged.
    """
    try:
        parts = read_url(url)
        connection = HTTPConnection(parts.host, parts.port, timeout=TIMEOUT_S)
        address = resolve(parts, networks)
        raw = socket.create_connection((address, parts.port), TIMEOUT_S)
        try:
            connection.sock = raw
            if parts.scheme == "https":
                context = ssl.create_default_context()
                connection.sock = context.wrap_socket(raw, server_hostname=parts.host)
            connection.request("POST", parts.target, body, {**headers, "Host": parts.authority})
            status = connection.getresponse().status
        finally:
            connection.close()
            raw.close()
    except (AddressError, OSError, HTTPException) as error:
        return str(error) or type(error).__name__
    return "" if 200 <= status < 300 else f"it answered {status}"
