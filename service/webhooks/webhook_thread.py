"""WebhookThread: delivers events to webhooks, in the process that leads the dispatch.

Deliveries are stored together with the position in the events, and sent from there. So nothing is
lost if a process is killed, and a delivery in progress is sent again: at least once, with the same
id.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import os
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from typing import Final

import msgspec

from service.access.rate_limit import share_of
from service.clock import Clock
from service.commits.replica import Replica
from service.events import read_position
from service.problems import ApiProblemError
from service.store.engine import UNAVAILABLE
from service.store.promise_ledger import below_since
from service.store.tokens import TokenBook
from service.store.webhooks import DEAD, DELIVERED, DeliveryRow, WebhookRow
from service.webhooks.addresses import AddressError, IpNetwork, read_url, resolve
from service.webhooks.collection import EventCollector
from service.webhooks.messages import content_type, formatted

logger = logging.getLogger("agenda.service")

#: Seconds between two checks.
_LOOK_S: Final = 1.0

#: Pauses after failed attempts, seconds; there is no attempt after the last one.
RETRY_S: Final = (5, 30, 120, 600, 3_600, 21_600)

#: How long ended deliveries are stored, ms: longer than the longest lead of an announcement.
_REMEMBERED_MS: Final = 3 * 86_400_000

#: Webhooks served concurrently, and most deliveries per read.
_AT_ONCE: Final = 8
_MOST_DUE: Final = 500

#: Most stored announcements that a process caches.
_MOST_ANNOUNCED: Final = 100_000

#: Seconds for a whole delivery: name resolution, connection, TLS, request and the answer's head.
TIMEOUT_S: Final = 10.0

#: Prefix of a secret, as in Standard Webhooks.
_PREFIX: Final = "whsec_"
_SECRET_BYTES: Final = 24


class WebhookThread:
    """Stores and sends deliveries while this process leads.

    Parameters
    ----------
    replica, clock
        The Plan, the store and the time.
    leads
        Returns whether this process leads.
    collector
        Finds the events to report.
    networks
        Allowed networks in addition to the public Internet.
    """

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        leads: Callable[[], bool],
        collector: EventCollector,
        networks: tuple[IpNetwork, ...],
    ) -> None:
        self._replica = replica
        self._rows = replica.store.webhooks
        self._tokens = TokenBook(replica.store.tokens)
        self._clock = clock
        self._leads = leads
        self._collector = collector
        self._networks = networks
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agenda-webhooks", daemon=True)
        self._pool: ThreadPoolExecutor | None = None
        self._busy: dict[str, tuple[str | None, Future[None]]] = {}
        self._forgot_ms = 0
        self._announced: set[tuple[str, str]] = set()

    def start(self) -> None:
        """Start, in a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """Stop; deliveries in progress are sent again by the next leader."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        while not self._closing.wait(_LOOK_S):
            try:
                if self._leads():
                    self.note()
                    self.deliver()
            except (ApiProblemError, *UNAVAILABLE):
                logger.warning("webhooks wait for the database", exc_info=True)
            except Exception:
                logger.exception("webhook events could not be queued; retrying later")

    def note(self) -> None:
        """Store deliveries for events since the last check."""
        clock_ms = self._clock.now_ms()
        hooks = [hook for hook in self._rows.page() if self._fault(hook) is None]
        if not hooks:
            return
        found: list[DeliveryRow] = []
        looked_at: list[tuple[str, int, int]] = []
        names = msgspec.json.decode(self._replica.store.applications.assignment()).get("below", ())
        since = below_since(self._replica.store) if names else {}
        with self._replica.newest() as plan:
            now_ms = self._replica.plan_ms(clock_ms)
            below = {name: since.get(name, now_ms) for name in names}
            for hook in hooks:
                found += self._collector.of_clock(hook, plan, below, now_ms, clock_ms)
        found = [one for one in found if (one.webhook, one.event) not in self._announced]
        announced = {(one.webhook, one.event) for one in found}
        for hook in hooks:
            rows, position = self._collector.of_log(hook, clock_ms)
            found += rows
            if position != (hook.version, hook.number):
                looked_at.append((hook.id, *position))
        if looked_at or found:
            self._rows.note(found, looked_at)
        self._remember(announced)
        if clock_ms - self._forgot_ms > _REMEMBERED_MS // 72:
            self._forgot_ms = clock_ms
            self._rows.forget(clock_ms - _REMEMBERED_MS)

    def _remember(self, announced: set[tuple[str, str]]) -> None:
        """Cache stored announcements: the clock brings the same ones at each check."""
        if len(self._announced) > _MOST_ANNOUNCED:
            self._announced.clear()  # repeated ones are in the database
        self._announced |= announced

    def deliver(self) -> None:
        """Start due deliveries; a slow webhook does not delay others."""
        due: dict[str, list[DeliveryRow]] = {}
        for row in self._rows.due(self._clock.now_ms(), _MOST_DUE):
            due.setdefault(row.webhook, []).append(row)
        self._busy = {id_: one for id_, one in self._busy.items() if not one[1].done()}
        sending = Counter(tenant for tenant, _ in self._busy.values() if tenant)
        hooks = {hook.id: hook for hook in self._rows.page()} if due else {}
        for id_, rows in due.items():
            if id_ not in hooks or id_ in self._busy:
                continue
            if (fault := self._fault(hooks[id_])) is not None:
                self._rows.give_up(id_, fault, self._clock.now_ms())
                continue
            tenant = hooks[id_].tenant
            if tenant and sending[tenant] >= share_of(_AT_ONCE):
                continue  # its tenant's others are slow; this one starts when one of them has ended
            sending[tenant or ""] += 1
            self._busy[id_] = tenant, self._sender_pool().submit(self._tell, hooks[id_], rows)

    def _fault(self, hook: WebhookRow) -> str | None:
        """Return why a webhook gets no more events, or None."""
        return self._tokens.maker_fault(hook.maker, hook.tenant, self._clock.now_ms())

    def wait(self) -> None:
        """Wait for deliveries in progress."""
        for _, one in self._busy.values():
            one.result()

    def _sender_pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_AT_ONCE, "agenda-webhook")
        return self._pool

    def _tell(self, hook: WebhookRow, rows: list[DeliveryRow]) -> None:
        """Try each delivery; after a failure the others wait for the next check."""
        for row in sorted(rows, key=_order):
            if self._closing.is_set() or not self._leads() or self._fault(hook) is not None:
                return
            at_ms = self._clock.now_ms()
            body = formatted(row.body, hook.form)
            headers = {
                "Content-Type": content_type(hook.form),
                "User-Agent": "Agenda",
                "Webhook-Id": row.event,
                "Webhook-Timestamp": str(at_ms // 1000),
                "Webhook-Signature": _signature_of(hook.secret, row.event, at_ms // 1000, body),
            }
            error = post(hook.url, headers, body, self._networks)
            try:
                self._rows.settle(_after_attempt(row, error, at_ms))
            except UNAVAILABLE:  # it is sent again, with the same id
                logger.warning("a delivery waits for the database", exc_info=True)
                return
            if error:
                return


def _order(row: DeliveryRow) -> tuple[int, tuple[int, int]]:
    """Sort key: due time, then position of the event."""
    return row.due_ms, read_position(row.event) or (0, 0)


def _after_attempt(row: DeliveryRow, error: str, at_ms: int) -> DeliveryRow:
    """Return a delivery after an attempt: delivered, to be retried, or dead."""
    tried = replace(row, attempts=row.attempts + 1, error=error, due_ms=at_ms)
    if not error:
        return replace(tried, state=DELIVERED)
    if row.attempts >= len(RETRY_S):
        return replace(tried, state=DEAD)
    return replace(tried, due_ms=at_ms + 1000 * RETRY_S[row.attempts])


def new_secret() -> str:
    """Return a new random secret."""
    return _PREFIX + base64.b64encode(os.urandom(_SECRET_BYTES)).decode()


def _signature_of(secret: str, id_: str, at_s: int, body: bytes) -> str:
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
