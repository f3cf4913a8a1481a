"""Calls of several clients that one commit takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from service.store import Store
from tests.service.conftest import Service


def in_one_commit(service: Service, *calls: Callable[[], object]) -> None:
    """Run calls in threads while another process appends, so that one commit takes them all."""
    other = Store(service.runtime.config.database)
    threads = [threading.Thread(target=call) for call in calls]
    with other.turn():
        for thread in threads:
            thread.start()
        until = time.monotonic() + 20
        while len(service.runtime._waiting) < len(calls) - 1 and time.monotonic() < until:
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    other.close()
