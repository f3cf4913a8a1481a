"""Threads of AsyncClient: what is cancelled is not sent again, and watches keep none from calls."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack

import pytest

import agenda
from tests.service.client.stand_in import FixedAnswer, answering


def test_a_cancelled_call_is_not_sent_again() -> None:
    """A submission that no one awaits any more does not arrive later."""
    arrived = threading.Event()
    answer = FixedAnswer(503, before=lambda _: arrived.set())

    async def cancelled(url: str) -> None:
        async with agenda.AsyncClient(url, retries=agenda.Retries((0.2,), jitter=0.0)) as client:
            task = asyncio.create_task(client.submit("atom(<1 cpu>, 1, 1, 60, 60)"))
            await asyncio.to_thread(arrived.wait, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with answering(answer) as (url, methods):
        asyncio.run(cancelled(url))
        for thread in threading.enumerate():
            if thread.name.startswith("agenda"):
                thread.join(300)
        assert methods == ["POST"]


def test_many_watches_leave_calls_their_threads(address: str) -> None:
    """A client with more watches than it has threads for calls still answers."""

    async def watched() -> None:
        async with agenda.AsyncClient(address) as client, AsyncExitStack() as stack:
            client._threads._max_workers = 2
            waiting = []
            for _ in range(3):
                events = client.watch(reservation="nobody")
                assert (await anext(events)).kind == "start"
                stack.push_async_callback(events.aclose)
                waiting.append(asyncio.create_task(anext(events)))
            await asyncio.sleep(0.1)
            await asyncio.wait_for(client.list(limit=1), 60)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(watched())
