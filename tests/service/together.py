"""Calls of several clients that one commit takes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from service.commands import Job
from service.store import Store
from tests.service.conftest import Service


def in_one_commit(service: Service, *calls: Callable[[], object]) -> None:
    """Run calls in threads while another process appends, so that one commit takes them all."""
    other, room = Store(service.runtime.config.database), service.runtime._waiting
    threads = [threading.Thread(target=call) for call in calls]
    entered, put = threading.Semaphore(0), room.put

    def counted(job: Job) -> bool:
        taken = put(job)
        entered.release()
        return taken

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "put", counted)
        with other.turn():
            for thread in threads:
                thread.start()
            # How many of them the planner has taken already is a matter of chance.
            for _ in calls:
                assert entered.acquire(timeout=60), "a call has not come to the planner"
        for thread in threads:
            thread.join()
    other.close()
