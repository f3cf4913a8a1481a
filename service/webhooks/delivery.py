"""One delivery attempt: a signed POST to the address that was checked."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import Final

from service.webhooks.addresses import AddressError, IpNetwork, read_url, resolve

#: Seconds for a whole delivery: name resolution, connection, TLS, request and the answer's head.
TIMEOUT_S: Final = 10.0

#: Prefix of a secret, as in Standard Webhooks.
_PREFIX: Final = "whsec_"
_SECRET_BYTES: Final = 24


def new_secret() -> str:
    """Return a new random secret."""
    return _PREFIX + base64.b64encode(os.urandom(_SECRET_BYTES)).decode()


def signature_of(secret: str, id_: str, at_s: int, body: bytes) -> str:
    """Return the signature of a delivery as in Standard Webhooks: ``v1,<base64>``.

    Parameters
    ----------
    at_s
        Unix time of the attempt, seconds.
    """
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = f"{id_}.{at_s}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def post(url: str, headers: dict[str, str], body: bytes, networks: Sequence[IpNetwork]) -> str:
    """Send a body; return why it failed, empty on success.

    Redirects are not followed, because their target was not checked.
    """
    deadline = _Deadline(TIMEOUT_S)
    try:
        status = _status_of(url, headers, body, networks, deadline)
    except (AddressError, OSError, HTTPException) as error:
        late = f"it did not answer in {TIMEOUT_S:g} s"
        return late if deadline.over else str(error) or type(error).__name__
    finally:
        deadline.cancel()
    return "" if 200 <= status < 300 else f"it answered {status}"


def _status_of(
    url: str,
    headers: dict[str, str],
    body: bytes,
    networks: Sequence[IpNetwork],
    deadline: _Deadline,
) -> int:
    """Return the status of the receiver's answer."""
    parts = read_url(url)
    connection = HTTPConnection(parts.host, parts.port, timeout=TIMEOUT_S)
    address = resolve(parts, networks)
    raw = socket.create_connection((address, parts.port), TIMEOUT_S)
    try:
        connection.sock = raw
        deadline.guard(raw)
        if parts.scheme == "https":
            context = ssl.create_default_context()
            secured = context.wrap_socket(
                raw, server_hostname=parts.host, do_handshake_on_connect=False
            )
            connection.sock = secured
            deadline.guard(secured)
            secured.do_handshake()
        connection.request("POST", parts.target, body, {**headers, "Host": parts.authority})
        return connection.getresponse().status
    finally:
        connection.close()
        raw.close()


class _Deadline:
    """Shuts a connection down when its time is up, even if its thread is blocked.

    A socket timeout applies to each read: a receiver that sends a byte from time to time would
    never exceed it.
    """

    def __init__(self, seconds: float) -> None:
        self.over = False
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def guard(self, connection: socket.socket) -> None:
        """Guard this connection; shut it down immediately if the time is up."""
        with self._lock:
            self._socket = connection
            if self.over:
                _shut(connection)

    def cancel(self) -> None:
        """Forget the connection."""
        self._timer.cancel()
        with self._lock:
            self._socket = None

    def _end(self) -> None:
        with self._lock:
            self.over = True
            if self._socket is not None:
                _shut(self._socket)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
