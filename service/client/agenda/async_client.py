"""AsyncClient: what Client does, awaited."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self, TypeVar, Unpack

from agenda.client import Client, ListFilter, Rdl, Until, has_reached
from agenda.connection import DEFAULT_TIMEOUT_S
from agenda.errors import ProblemError, ServerAwayError, WaitTimeoutError
from agenda.records import Event, Hold, Offer, OfferAnswer, RequestFields, Reservation
from agenda.retries import Retries

T = TypeVar("T")

#: Calls of one client that are open at a time; more wait.
_THREADS: Final = 32

#: Of the call that a thread is at: whether its task was cancelled.
_GIVEN_UP: Final[ContextVar[threading.Event]] = ContextVar("given_up")


class AsyncClient:
    """The same server for programs of asyncio; the methods are those of `Client`.

    Each call has a thread while it is open (32 at most), so that the loop never waits; each watch
    has one of its own. A call whose task is cancelled is not sent again. Use it with
    ``async with``, which ends its threads.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retries: Retries | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        asked = retries or Retries()
        patient = replace(asked, pause=partial(_pause, asked.pause))
        self._client = Client(url, token, retries=patient, timeout_s=timeout_s)
        self._threads = ThreadPoolExecutor(_THREADS, "agenda")

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End its threads."""
        self.shut_down()

    def shut_down(self) -> None:
        """Take no more calls."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._client.url

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Send any call of docs/api.md and return the body of its answer."""
        return await self._run(partial(self._client.call, method, path, body, query, headers))

    async def submit(
        self,
        rdl: Rdl,
        *,
        key: str | None = None,
        dry_run: bool = False,
        offers: int | None = None,
        bound: bool = False,
        **fields: Unpack[RequestFields],
    ) -> Reservation:
        """Ask for a reservation."""
        submit = self._client.submit
        return await self._run(
            lambda: submit(rdl, key=key, dry_run=dry_run, offers=offers, bound=bound, **fields)
        )

    async def submit_batch(
        self,
        requests: Iterable[Mapping[str, Any]],
        *,
        atomic: bool = False,
        key: str | None = None,
        dry_run: bool = False,
        offers: int | None = None,
    ) -> Sequence[Reservation | ProblemError]:
        """Ask for many reservations in one call."""
        return await self._run(
            partial(
                self._client.submit_batch,
                requests,
                atomic=atomic,
                key=key,
                dry_run=dry_run,
                offers=offers,
            )
        )

    async def get(self, id_: str) -> Reservation:
        """Return one reservation, or refusal, as it is now."""
        return await self._run(partial(self._client.get, id_))

    async def list(
        self, filter_: ListFilter | None = None, *, limit: int | None = None
    ) -> Sequence[Reservation]:
        """Return reservations by admission, then refusals."""
        return await self._run(lambda: tuple(self._client.list(filter_, limit=limit)))

    async def update(
        self,
        id_: str,
        rdl: Rdl,
        *,
        revision: int | None = None,
        dry_run: bool = False,
        **fields: Unpack[RequestFields],
    ) -> Reservation:
        """Swap the request of a reservation, or leave all as it was."""
        update = self._client.update
        return await self._run(
            lambda: update(id_, rdl, revision=revision, dry_run=dry_run, **fields)
        )

    async def cancel(self, id_: str, *, revision: int | None = None) -> Reservation:
        """Give a reservation up: its future is released, its past kept."""
        return await self._run(partial(self._client.cancel, id_, revision=revision))

    async def close(self, id_: str) -> Reservation:
        """End a reservation as completed, and release the rest."""
        return await self._run(partial(self._client.close, id_))

    async def explain(self, id_: str) -> Mapping[str, Any]:
        """Return why it stands where it does, or who holds what it needed."""
        return await self._run(partial(self._client.explain, id_))

    async def plan_bound(self) -> Mapping[str, Any]:
        """Return what the Plan holds, and the most that any plan of the same requests could."""
        return await self._run(self._client.plan_bound)

    async def wait(
        self, id_: str, until: Until = "ended", *, timeout_s: float | None = None
    ) -> Reservation:
        """Wait until a reservation has begun, or until nothing more will become of it."""
        events = self.watch(reservation=id_, timeout_s=timeout_s)
        try:
            async for _ in events:
                now = await self.get(id_)
                if has_reached(now, until):
                    return now
        finally:
            await events.aclose()
        raise WaitTimeoutError(f"{id_} has not {until} within {timeout_s:g} s")

    async def watch(
        self,
        *,
        tenant: str | None = None,
        reservation: str | None = None,
        kinds: Iterable[str] = (),
        after: str | None = None,
        timeout_s: float | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Yield what happens, as it happens, each once and none missed."""
        stream = self._client.event_stream(tenant, reservation, kinds, after, timeout_s)
        events = iter(stream)
        # One that waits long must not keep a thread from the calls.
        thread = ThreadPoolExecutor(1, "agenda-watch")
        try:
            while (event := await _run_in(thread, partial(next, events, None))) is not None:
                yield event
        finally:
            stream.close()
            thread.shutdown(wait=False, cancel_futures=True)

    async def offers(
        self, rdl: Rdl, *, most: int | None = None, **fields: Unpack[RequestFields]
    ) -> OfferAnswer:
        """Return whether a request would be accepted, and what would be instead; change nothing."""
        return await self._run(lambda: self._client.offers(rdl, most=most, **fields))

    async def accept(self, offer: Offer, *, key: str | None = None) -> Reservation:
        """Submit what an offer holds; it takes the place of the refusal that it was made for."""
        return await self.submit(offer, key=key)

    async def hold(
        self, rdl: Rdl, *, time_s: float | None = None, **fields: Unpack[RequestFields]
    ) -> Hold:
        """Place a request and keep its room for up to 60 s."""
        return await self._run(lambda: self._client.hold(rdl, time_s=time_s, **fields))

    async def holds(self) -> Sequence[Hold]:
        """Return what is held for this client's tenants, the first to end first."""
        return await self._run(self._client.holds)

    async def accept_hold(self, id_: str) -> Reservation:
        """Keep what is held: it is a reservation like others from now on."""
        return await self._run(partial(self._client.accept_hold, id_))

    async def release_hold(self, id_: str) -> Reservation:
        """Give back what is held."""
        return await self._run(partial(self._client.release_hold, id_))

    async def _run(self, work: Callable[[], T]) -> T:
        """Run a call in a thread of this client's."""
        return await _run_in(self._threads, work)


async def _run_in(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Run a call in a thread; who is cancelled meanwhile has it end before its next sending."""
    given_up = threading.Event()
    context = copy_context()
    context.run(_GIVEN_UP.set, given_up)
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, context.run, work)
    except asyncio.CancelledError:
        given_up.set()
        raise


def _pause(pause: Callable[[float], object], seconds: float) -> None:
    """Wait before a call is sent again, unless nobody waits for its answer any more.

    Raises
    ------
    ServerAwayError
        If nobody does.
    """
    given_up = _GIVEN_UP.get()
    if pause is time.sleep:
        given_up.wait(seconds)
    else:
        pause(seconds)
    if given_up.is_set():
        raise ServerAwayError("the call was cancelled", sent=True)
