"""Gunicorn's threaded worker, in which no slow client occupies a thread.

The event loop reads requests without blocking; a complete request is given to a thread, which reads
it from memory. Heads and bodies have deadlines, connections are limited, and clients that do not
read an answer are dropped. Invalid HTTP is answered in the API's error format.
"""

from __future__ import annotations

import errno
import logging
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, Final

import msgspec
from gunicorn import util
from gunicorn.http import wsgi
from gunicorn.http.body import ChunkedReader
from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.wsgi import Response
from gunicorn.workers.gthread import ThreadWorker

from planner.placement import Code
from service.connections.client_socket import ClientSocket, fix_settings
from service.connections.parked_streams import ParkedStreams
from service.problems import CONTENT_TYPE, ProblemDocument
from service.streaming.live_stream import STREAM_PLACE

logger = logging.getLogger("agenda.service")

#: Memory for bodies in a process, as a multiple of the longest body.
_LONGEST_BODIES: Final = 8

#: Seconds for a client to read its last answer before the connection is closed, and most
#: connections that wait for that.
_PARTING_S: Final = 2.0
_MOST_PARTING: Final = 64

#: Seconds for the rest of a request to arrive after the worker was asked to stop.
_STOPPING_S: Final = 2.0

#: Calls for monitoring the server. Each has a thread of its own.
_WATCHED: Final = (b"/healthz", b"/readyz", b"/metrics")

#: Seconds for which a process with more clients than the others leaves a new one to them.
_GIVING_WAY_S: Final = 0.002

_RETRY: Final = {"Retry-After": "1"}


class ProblemWorker(ThreadWorker):  # type: ignore[misc]
    """Gives each complete request to a thread, and answers invalid ones with a problem.

    While there are threads for all connections, a thread stays with its client for a moment after
    an answer: successive requests are then served without three thread switches and two system
    calls, a fifth of the time of a small request.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._config = self.app.config
        self._share = self.app.share
        self._limits = ConnectionLimits(
            self._config.connections, self._config.per_address, self._config.proxies
        )
        # A client beyond the limit gets an answer; gunicorn would let it wait.
        self.worker_connections = self._config.connections + _MOST_PARTING + 1
        self.max_keepalived = self.worker_connections - self.cfg.threads
        self._held = 0
        self._here = threading.local()
        self._watch = {path: ThreadPoolExecutor(1) for path in _WATCHED}
        self._streams: ParkedStreams
        # In order of their start.
        self._arriving: dict[ClientSocket, None] = {}
        self._parting: dict[ClientSocket, None] = {}

    def load_wsgi(self) -> None:
        """Load the application, and let it pass streams to the event loop."""
        super().load_wsgi()
        fix_settings(self.cfg)
        self._streams = ParkedStreams(self.poller, self.method_queue.defer, self._config.answer_s)
        application = self.wsgi.wsgi_app

        def with_place(environ: dict[str, Any], start_response: Any) -> Any:
            conn = self._here.conn
            environ[STREAM_PLACE] = conn.carry
            answer = application(environ, start_response)
            if conn.stream is not None:
                # Its length is unknown: the end of the connection ends the body.
                start_response.__self__.chunked = False
                start_response.__self__.force_close()
            return answer

        self.wsgi.wsgi_app = with_place

    # Methods of the event loop. They must not block, except briefly before accepting a client.

    def accept(self, listener: Any) -> None:
        """Accept a new client, or refuse it if there are too many."""
        if self._share.is_ahead(self.nr_conns):
            time.sleep(_GIVING_WAY_S)  # a process with fewer clients is awake too, and accepts it
        try:
            client, peer = listener.accept()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        document = self._limits.refusal(address)
        config, accepted = self._config, (client, peer, listener.getsockname())
        conn = ClientSocket(self.cfg, accepted, config.max_body, config.answer_s)
        self.nr_conns += 1
        self._share.tell(self.nr_conns)
        if document is None:
            conn.left = self._limits.enter(address)
            self._read(conn)
        else:
            self._refuse(conn, document)

    def enqueue_req(self, conn: ClientSocket) -> None:
        """Submit a complete request to the shared threads, or to the thread of its call."""
        own = self._watch.get(conn.buffer.path_of_get())
        if own is None:
            future = self.tpool.submit(self.handle, conn)
        else:
            future = own.submit(self.handle, conn, lingers=False)
        future.add_done_callback(
            lambda done: self.method_queue.defer(self.finish_request, conn, done)
        )

    def on_client_socket_readable(self, conn: ClientSocket, client: Any) -> None:
        """Read the next request of a kept connection."""
        self.poller.unregister(client)
        self.keepalived_conns.remove(conn)
        self._read(conn)

    def murder_pending(self) -> None:
        """Close connections whose request has not arrived by its deadline."""
        now = time.monotonic()
        for conn in list(self._arriving):
            if not self.alive:
                conn.deadline = min(conn.deadline, now + _STOPPING_S)
            if conn.deadline > now:
                continue
            self._forget(conn)
            if len(conn.buffer):
                self._refuse(conn, _late(conn))
            else:
                self._drop(conn)
        for conn in list(self._parting):
            if conn.deadline > now:
                break
            self._end(conn)
        self._streams.expire(now)
        self._share.tell(self.nr_conns)

    def finish_request(self, conn: ClientSocket, fs: Any) -> None:
        """Keep a connection for its next request, or end it."""
        self._count(conn)
        if conn.stream is not None:
            self._park(conn)
        elif fs.cancelled() or fs.exception() is not None or not fs.result():
            self._part(conn)
        elif len(conn.buffer):
            self._settle(conn)
        else:
            super().finish_request(conn, fs)

    def murder_keepalived(self, force: bool = False) -> None:
        """Close idle connections after their timeout; a stopping worker ends its streams first."""
        if not self.alive:
            self._streams.end_all()
        super().murder_keepalived(force)

    def _park(self, conn: ClientSocket) -> None:
        """Continue with a stream, which no longer counts as a connection."""
        conn.buffer.clear()
        self._count(conn)
        self.nr_conns -= 1
        conn.leave()
        self._streams.park(conn)

    def _read(self, conn: ClientSocket) -> None:
        """Read what a client has sent, and process it."""
        if conn.read():
            self._count(conn)
            self._settle(conn)
        else:
            self._forget(conn)
            self._drop(conn)

    def _settle(self, conn: ClientSocket) -> None:
        """Refuse a request, submit it to a thread, or wait for the rest of it."""
        buffer = conn.buffer
        fault = buffer.fault
        if fault is None and not buffer.whole:
            self._await_rest(conn)
            if self._held <= _LONGEST_BODIES * self._config.max_body:
                return
            detail = "more request bodies arrive at the same time than this server can hold"
            fault = ProblemDocument("unavailable", detail, headers={"Retry-After": "1"})
        self._forget(conn)
        if fault is None:
            self.enqueue_req(conn)
        else:
            self._refuse(conn, fault)

    def _await_rest(self, conn: ClientSocket) -> None:
        now = time.monotonic()
        if conn not in self._arriving:
            conn.deadline = now + self._config.head_s
            self._arriving[conn] = None
            reading = partial(_without_file, self._read, conn)
            self.poller.register(conn.sock, selectors.EVENT_READ, reading)
        if conn.buffer.in_body and not conn.in_body:
            conn.begin_body()
            conn.deadline = now + self._config.body_s

    def _forget(self, conn: ClientSocket) -> None:
        """Stop waiting for a request."""
        if conn in self._arriving:
            del self._arriving[conn]
            self.poller.unregister(conn.sock)

    def _count(self, conn: ClientSocket) -> None:
        """Update the count of bytes buffered by a connection."""
        self._held += len(conn.buffer) - conn.held
        conn.held = len(conn.buffer)

    def _refuse(self, conn: ClientSocket, document: ProblemDocument) -> None:
        conn.send(response_of(document))
        self._part(conn)

    def _part(self, conn: ClientSocket) -> None:
        """End a connection such that its client can still read the answer.

        Closing a socket with unread bytes may discard sent data (RFC 9112, 9.6). The client's
        further data is discarded, and no longer counts.
        """
        conn.buffer.clear()
        self._count(conn)
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(conn)
            return
        conn.deadline = time.monotonic() + _PARTING_S
        self._parting[conn] = None
        draining = partial(_without_file, self._drain, conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, draining)
        if len(self._parting) > _MOST_PARTING:
            self._end(next(iter(self._parting)))

    def _drain(self, conn: ClientSocket) -> None:
        if not conn.drain():
            self._end(conn)

    def _end(self, conn: ClientSocket) -> None:
        del self._parting[conn]
        self.poller.unregister(conn.sock)
        self._drop(conn)

    def _drop(self, conn: ClientSocket) -> None:
        """Close a connection."""
        self._held -= conn.held
        self.nr_conns -= 1
        conn.close()

    # Methods of a thread with a complete request.

    def handle(self, conn: ClientSocket, *, lingers: bool = True) -> bool:
        """Serve requests of a connection until it pauses; return whether to keep it.

        A thread that does not linger serves one request.
        """
        conn.sock.setblocking(True)
        conn.init()
        kept = self._serve(conn)
        while kept and lingers and self._may_linger() and conn.arrives():
            kept = self._serve(conn)
        return kept

    def _serve(self, conn: ClientSocket) -> bool:
        """Read and answer the next request of a connection; return whether it may be kept."""
        if conn.buffer.is_post:
            self.app.precedence.give_way()
        request = None
        try:
            request = next(conn.parser)
            kept = self._is_passed(conn, self.handle_request(request, conn))
        except (NoMoreData, StopIteration) as end:
            logger.debug("a client ended before its request: %s", end)
            return False
        except (BrokenPipeError, ConnectionResetError) as error:
            logger.debug("a client disconnected: %s", error)
            return False
        except Exception as error:  # noqa: BLE001 - it is answered, and logged where it is a fault
            self.handle_error(request, conn.sock, conn.client, error)
            return False
        if not kept or conn.buffer.short:
            return False
        conn.go_on()
        return True

    def _is_passed(self, conn: ClientSocket, kept: bool) -> bool:
        """Return whether the connection can continue after an answer and the unread body."""
        try:
            return bool(self._keepalive_after(conn, kept))
        except ParseException:  # the end of the body is unknown; the request has been answered
            return False

    def _may_linger(self) -> bool:
        return bool(self.alive and self.nr_conns <= self.cfg.threads)

    def handle_request(self, req: Any, conn: ClientSocket) -> bool:
        """Answer one request; return whether the connection may be kept."""
        self._here.conn = conn
        req._expected_100_continue = False  # noqa: SLF001 - the event loop has sent it
        began = datetime.now(UTC)
        response, environ = wsgi.create(
            req, conn.sock, conn.client, conn.server, self.cfg, response_class=WholeResponse
        )
        response.longest_s = self._config.body_s
        environ["wsgi.multithread"] = True
        if conn.parser.mesg.body.reader.__class__ is ChunkedReader:
            environ["wsgi.input"] = _ChunkedBody(environ["wsgi.input"], response.force_close)
        if not self.alive or len(self.keepalived_conns) >= self.max_keepalived:
            response.force_close()
        try:
            response.send_all(self.wsgi(environ, response.start_response))
        except BlockingIOError:
            logger.info("a client did not read its answer in time")
            return False
        except Exception as error:
            if isinstance(error, OSError) or not response.begun:
                raise
            logger.exception("an answer ended before its body did")
            return False
        finally:
            if self.log.access_log_enabled:
                self.log.access(response, req, environ, datetime.now(UTC) - began)
        return not response.should_close()

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer a request that did not reach the application, and close the connection."""
        if isinstance(exc, ParseException):
            document = ProblemDocument(Code.MALFORMED, f"unsupported request: {exc}")
        else:
            logger.error("a connection failed", exc_info=exc)
            document = ProblemDocument("internal", "see the server's log")
        try:
            util.write_nonblock(client, response_of(document))
        except OSError as error:
            logger.debug("the client of a malformed request disconnected: %s", error)


class _ChunkedBody:
    """The body of a chunked request; if it is malformed, its end is unknown.

    Parameters
    ----------
    body
        Body for the application.
    hang_up
        Requests closing the connection after the answer, because no request can follow.
    """

    def __init__(self, body: Any, hang_up: Callable[[], None]) -> None:
        self._body, self._hang_up = body, hang_up

    def read(self, size: int | None = None) -> bytes:
        """Return up to `size` bytes, or all.

        Raises
        ------
        ParseException
            If a chunk or trailer is malformed.
        """
        try:
            found: bytes = self._body.read(size)
        except ParseException:
            self._hang_up()
            raise
        return found


def _without_file(callback: Any, conn: ClientSocket, _file: Any) -> None:
    """Call `callback` with only the connection."""
    callback(conn)


def _late(conn: ClientSocket) -> ProblemDocument:
    what = "body" if conn.in_body else "head"
    return ProblemDocument("request_timeout", f"the {what} of the request did not arrive in time")


def response_of(document: ProblemDocument) -> bytes:
    """Return a problem as a whole HTTP response, after which the connection is closed."""
    body = msgspec.json.encode(document.to_json())
    headers = {
        "Connection": "close",
        "Content-Type": CONTENT_TYPE,
        "Content-Length": str(len(body)),
        **document.headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {document.status} {HTTPStatus(document.status).phrase}\r\n{lines}\r\n"
    return head.encode() + body


# Each system call may switch threads, and wakes the client: sending the head separately takes a
# tenth of the time of a small answer.


class WholeResponse(Response):  # type: ignore[misc]
    """A response that delays its head until the first piece of its body, or its end.

    Attributes
    ----------
    longest_s
        Seconds in which a client must read all of it, from its first delay.
    """

    headers_sent: bool
    longest_s = float("inf")

    def __init__(self, req: Any, sock: Any, cfg: Any) -> None:
        super().__init__(req, sock, cfg)
        self._head = b""
        self._began: float | None = None

    @property
    def begun(self) -> bool:
        """Whether a part of it has been sent."""
        return bool(self.headers_sent and not self._head)

    def send_all(self, pieces: Iterable[bytes]) -> None:
        """Send an answer with a body in pieces."""
        try:
            for piece in pieces:
                self.write(piece)
            self.close()
        finally:
            if hasattr(pieces, "close"):
                pieces.close()

    def default_headers(self) -> list[str]:
        """Return the common lines of answers: status, server, date, connection."""
        major, minor = self.req.version
        lines = [
            f"HTTP/{major}.{minor} {self.status}\r\n",
            f"Server: {self.version}\r\n",
            f"Date: {_date(int(time.time()))}\r\n",
            f"Connection: {'close' if self.should_close() else 'keep-alive'}\r\n",
        ]
        return [*lines, "Transfer-Encoding: chunked\r\n"] if self.chunked else lines

    def send_headers(self) -> None:
        """Build the head; it is sent with the next piece."""
        if self.headers_sent:
            return
        lines = [*self.default_headers(), *(f"{name}: {value}\r\n" for name, value in self.headers)]
        self._head = "".join([*lines, "\r\n"]).encode("latin-1")
        self.headers_sent = True

    def close(self) -> None:
        """End the answer; without a body, send only its head."""
        self.send_headers()
        if self._head:
            self._send(self._take_head())
        super().close()

    def _emit_body(self, data: bytes) -> None:
        if self.chunked:
            data = b"%X\r\n%b\r\n" % (len(data), data)
        self._send(self._take_head() + data)

    def _send(self, data: bytes) -> None:
        """Send all data.

        Raises
        ------
        BlockingIOError
            If the client reads nothing until the socket's timeout, or has not read the whole answer
            in time.
        """
        sent = self.sock.send(data)
        if sent == len(data):
            return
        if self._began is None:
            self._began = time.monotonic()
        left, began = memoryview(data)[sent:], self._began
        while left:
            if time.monotonic() - began > self.longest_s:
                raise BlockingIOError("the client reads its answer too slowly")
            left = left[self.sock.send(left) :]

    def _take_head(self) -> bytes:
        head, self._head = self._head, b""
        return head


@lru_cache(maxsize=2)
def _date(second: int) -> str:
    return str(util.http_date(second))


class ConnectionLimits:
    """Counts the connections, in total and per address.

    Parameters
    ----------
    most, most_of_one
        Most connections in total, and from one address.
    proxies
        Addresses of proxies, which limit their own clients: the limit per address does not apply.
    """

    def __init__(self, most: int, most_of_one: int, proxies: Iterable[str] = ()) -> None:
        self._proxies = frozenset(proxies)
        self._most = most
        self._most_of_one = most_of_one
        self._of_one: Counter[str] = Counter()

    def refusal(self, address: str) -> ProblemDocument | None:
        """Return why another connection from an address is refused, or None."""
        if self._of_one.total() >= self._most:
            detail = f"{self._most} clients are connected, the maximum of this server"
            return ProblemDocument("unavailable", detail, headers=_RETRY)
        if self._of_one[address] >= self._most_of_one and address not in self._proxies:
            detail = f"{self._most_of_one} connections come from {address}, the maximum"
            return ProblemDocument("too_many", detail, headers=_RETRY)
        return None

    def enter(self, address: str) -> Callable[[], None]:
        """Count a connection; return the function that ends the count."""
        self._of_one[address] += 1
        return partial(self._leave, address)

    def _leave(self, address: str) -> None:
        self._of_one[address] -= 1
        if not self._of_one[address]:
            del self._of_one[address]
