"""The loops of the search for machines are loaded where promises stand on machines."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from service.warm_up import load_beside
from tests.builders import a_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Replica:
    def __init__(self, level: PromiseLevel) -> None:
        cluster = replace(a_cluster().machines("m", 1, cpu=1).build(), promise=level)
        self._plan = Plan(cluster, cluster.grid())

    @contextmanager
    def locked(self) -> Iterator[Plan]:
        yield self._plan


@pytest.mark.parametrize(
    ("level", "loaded"),
    [(PromiseLevel.PLACED, True), (PromiseLevel.POOLED, False)],
)
def test_the_search_for_machines_is_loaded_alongside_requests(
    level: PromiseLevel, loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a thread of its own: who starts the server does not wait for it."""
    done, threads = threading.Event(), []

    def load() -> None:
        threads.append(threading.current_thread())
        done.set()

    monkeypatch.setattr("service.warm_up._load_machines", load)
    load_beside(cast("Any", _Replica(level)))
    assert done.wait(10 if loaded else 0.05) is loaded
    assert threading.current_thread() not in threads
