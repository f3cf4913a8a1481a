"""AsyncClient: the methods of Client for asyncio."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import (
    AsyncGenerator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from dataclasses import replace
from functools import partial, update_wrapper
from itertools import chain, repeat
from os import PathLike
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, Unpack

from agenda.client import Client, ListFilter, Until, has_reached
from agenda.connection import DEFAULT_TIMEOUT_S
from agenda.errors import ServerAwayError, WaitTimeoutError
from agenda.jobs import OVER_RUNS, PAUSES_S, Job, JobFields, LogPiece
from agenda.records import Event, Reservation
from agenda.retries import Retries

P = ParamSpec("P")
T = TypeVar("T")

#: The most concurrent calls of one client; further calls wait.
_THREADS: Final = 32

#: Set if the task of a thread's current call was cancelled.
_GIVEN_UP: Final[ContextVar[threading.Event]] = ContextVar("given_up")


def _awaited(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """Return a method of `Client` as a coroutine of `AsyncClient` that runs in a thread."""

    async def call(self: AsyncClient, /, *given: P.args, **named: P.kwargs) -> T:
        return await self._run(partial(method, self._client, *given, **named))

    update_wrapper(call, method)
    return call


class AsyncClient:
    """A client for programs that use asyncio, with the methods of `Client`.

    Each open call runs in a thread (32 at most), so that the event loop never blocks; each watch
    has its own thread. A call whose task is cancelled is not retried. Use the client with
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
        """Accept no more calls."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self._client.url

    call = _awaited(Client.call)
    submit = _awaited(Client.submit)
    submit_batch = _awaited(Client.submit_batch)
    get = _awaited(Client.get)
    update = _awaited(Client.update)
    cancel = _awaited(Client.cancel)
    close = _awaited(Client.close)
    explain = _awaited(Client.explain)
    plan_bound = _awaited(Client.plan_bound)
    offers = _awaited(Client.offers)
    accept = _awaited(Client.accept)
    hold = _awaited(Client.hold)
    holds = _awaited(Client.holds)
    accept_hold = _awaited(Client.accept_hold)
    release_hold = _awaited(Client.release_hold)

    async def run(
        self,
        job: Mapping[str, Any] | str | PathLike[str],
        *,
        key: str | None = None,
        check: bool = False,
        **fields: Unpack[JobFields],
    ) -> AsyncJob:
        """Reserve for a job of several stages, and run each of them in its turn."""
        made = await self._run(partial(self._client.run, job, key=key, check=check, **fields))
        return AsyncJob(made, self._run)

    async def job(self, id_: str) -> AsyncJob:
        """Return a job that has been submitted."""
        return AsyncJob(await self._run(partial(self._client.job, id_)), self._run)

    async def list(
        self, filter_: ListFilter | None = None, *, limit: int | None = None
    ) -> Sequence[Reservation]:
        """Return reservations in order of admission, then refusals."""
        return await self._run(lambda: tuple(self._client.list(filter_, limit=limit)))

    async def wait(
        self, id_: str, until: Until = "ended", *, timeout_s: float | None = None
    ) -> Reservation:
        """Wait until a reservation has begun, or until its state is final."""
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
        """Yield events as they happen, each exactly once."""
        stream = self._client.event_stream(tenant, reservation, kinds, after, timeout_s)
        try:
            async for event in _iterated(iter(stream)):
                yield event
        finally:
            stream.close()

    async def _run(self, work: Callable[[], T]) -> T:
        """Run a call in a thread of this client."""
        return await _run_in(self._threads, work)


class AsyncJob:
    """A job with the methods of `Job` as coroutines; `logs` is an asynchronous iterator."""

    def __init__(self, job: Job, run: Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]]):
        self._job, self._run = job, run

    @property
    def id(self) -> str:
        """Of the pipeline."""
        return self._job.id

    @property
    def raw(self) -> Mapping[str, Any]:
        """The newest answer about it."""
        return self._job.raw

    async def state(self, number: int | None = None) -> str:
        """Return the state of a run: waiting, running, succeeded, failed or skipped."""
        state: str = await self._run(partial(self._job.state, number))
        return state

    async def stages(self, number: int | None = None) -> dict[str, str]:
        """Return the state of each stage of a run by its name."""
        stages: dict[str, str] = await self._run(partial(self._job.stages, number))
        return stages

    async def wait(self, number: int | None = None, *, timeout_s: float | None = None) -> str:
        """Wait until a run has ended, by default the newest or the first; return its state."""
        try:
            async with asyncio.timeout(timeout_s) as limit:
                for pause_s in chain(PAUSES_S, repeat(PAUSES_S[-1])):
                    if (state := await self.state(number)) in OVER_RUNS:
                        return state
                    await asyncio.sleep(pause_s)
        except TimeoutError:
            if not limit.expired():
                raise
        raise WaitTimeoutError(f"{self.id} has not ended within {timeout_s:g} s")

    async def logs(
        self, stage: str | None = None, number: int | None = None, *, follow: bool = False
    ) -> AsyncGenerator[LogPiece, None]:
        """Yield the output of a stage of a run, or of all stages; with `follow` until they end."""
        pieces = await self._run(partial(self._job.logs, stage, number, follow=follow))
        async for piece in _iterated(pieces):
            yield piece

    async def again(
        self, number: int | None = None, *, everything: bool = False
    ) -> Mapping[str, Any]:
        """Run what has not succeeded of a run again, or everything; return the run."""
        again = partial(self._job.again, number, everything=everything)
        run: Mapping[str, Any] = await self._run(again)
        return run

    async def cancel(self) -> None:
        """Cancel its reservation, start no further run, and stop running stages."""
        await self._run(self._job.cancel)


async def _iterated(items: Iterator[T]) -> AsyncGenerator[T, None]:
    """Yield the items of a blocking iterator from its own thread, not one of the calls'."""
    thread = ThreadPoolExecutor(1, "agenda-watch")
    try:
        while (item := await _run_in(thread, partial(next, items, None))) is not None:
            yield item
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


async def _run_in(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Run a call in a thread; if its task is cancelled, it ends instead of being sent again."""
    given_up = threading.Event()
    context = copy_context()
    context.run(_GIVEN_UP.set, given_up)
    try:
        return await asyncio.get_running_loop().run_in_executor(threads, context.run, work)
    except asyncio.CancelledError:
        given_up.set()
        raise


def _pause(pause: Callable[[float], object], seconds: float) -> None:
    """Wait before a call is sent again, unless its task is cancelled.

    Raises
    ------
    ServerAwayError
        If the task is cancelled.
    """
    given_up = _GIVEN_UP.get()
    if pause is time.sleep:
        given_up.wait(seconds)
    else:
        pause(seconds)
    if given_up.is_set():
        raise ServerAwayError("the call was cancelled", sent=True)
