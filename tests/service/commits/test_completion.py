"""Completion: what happens once is known to all who wait, before and after."""

from __future__ import annotations

import threading

from service.commits.job import Completion


def test_those_who_wait_continue() -> None:
    """Each of several threads, and one that comes later."""
    done = Completion()
    seen: list[bool] = []
    threads = [threading.Thread(target=lambda: seen.append(done.wait(300))) for _ in range(3)]
    for thread in threads:
        thread.start()
    done.set()
    for thread in threads:
        thread.join(300)

    assert seen == [True] * 3
    assert done.wait(0)


def test_time_may_be_over_first() -> None:
    """Then it is not done; told twice, it is done."""
    done = Completion()
    before = done.wait(0), done.is_set()
    done.set()
    done.set()

    assert before == (False, False)
    assert done.is_set()
