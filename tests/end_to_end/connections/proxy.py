"""A way to a database that a test may close or block, as a network does."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa


class Proxy:
    """Passes on what comes to a port of loopback, until it is reported not to.

    Attributes
    ----------
    port
        Where it listens.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open = True
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections and take no more."""
        self._open = False
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def block(self) -> None:
        """Pass on nothing; no one is reported."""
        self._flows.clear()

    def mend(self) -> None:
        """Pass on everything again."""
        self._open = True
        self._flows.set()

    def close(self) -> None:
        """Stop."""
        self.cut()
        self._flows.set()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if not self._open:
                    client.close()
                    continue
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._hand_on, args=(one, other), daemon=True).start()

    def _hand_on(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65_536):
                self._flows.wait()
                other.sendall(data)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(url: str) -> Iterator[tuple[Proxy, str]]:
    """Yield a proxy before a database, and the URL by which it is reached through the proxy."""
    made = sa.make_url(url)
    proxy = Proxy(made.host or "127.0.0.1", made.port or 5432)
    try:
        through = made.set(host="127.0.0.1", port=proxy.port)
        yield proxy, through.render_as_string(hide_password=False)
    finally:
        proxy.close()
