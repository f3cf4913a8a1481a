"""Limits: calls of one user, and what one tenant keeps waiting."""

from __future__ import annotations

import os
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from service.access.rate_limit import RateLimit
from service.commits import group_commit, screening
from service.commits.commands import Renegotiation
from service.commits.planner import WaitingLimit
from service.host.shared_counts import SharedCounts
from service.problems import ApiProblemError
from tests.patience import eventually
from tests.service.access.walking import ATOM, guarded
from tests.service.conftest import Open


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the steady clock, which the test moves."""
    now = [1000.0]
    monkeypatch.setattr("service.access.rate_limit.time.monotonic", lambda: now[0])
    return now


def test_a_user_may_make_this_many_calls(clock: list[float]) -> None:
    """Two seconds' worth at once, then one each time it has waited for it; others are others."""
    limit = RateLimit(10)
    assert [limit.wait_of("a") for _ in range(20)] == [0.0] * 20
    assert limit.wait_of("a") == pytest.approx(0.1)
    assert limit.wait_of("b") == 0.0
    clock[0] += 0.1
    assert limit.wait_of("a") == 0.0
    assert limit.wait_of("a") > 0
    assert all(RateLimit(0).wait_of("a") == 0.0 for _ in range(1000))


def test_who_was_silent_for_longest_is_forgotten(clock: list[float]) -> None:
    """Names do not pile up: a new one takes the bucket of another, not that of who calls now."""
    limit = RateLimit(0.25, buckets=16)
    for number in range(100):
        clock[0] += 2.0
        assert limit.wait_of(f"u{number}") == 0.0
    assert limit.wait_of("u99") > 0


def test_processes_of_a_server_count_together() -> None:
    """What a forked process counts is gone from the bucket of all."""
    limit = RateLimit(0.01)
    child = os.fork()
    if not child:
        os._exit(int(limit.wait_of("a")))
    assert os.waitpid(child, 0)[1] == 0
    assert limit.wait_of("a") > 0
    assert limit.wait_of("b") == 0.0


def test_what_waits_in_another_process_counts() -> None:
    """A forked process sees the counts of all others, and those of a killed one are gone."""
    shared = SharedCounts(3)
    shared.put("ads", 2)
    began, began_end = os.pipe()
    child = os.fork()
    if not child:
        shared._own = None  # as a worker, whose master counts nothing
        seen = shared.of_others("ads")
        shared.put("ads", 5)
        os.write(began_end, bytes([seen]))
        signal.pause()
    try:
        assert os.read(began, 1) == b"\2"
        assert (shared.of_others("ads"), shared.of_others("web")) == (5, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert shared.of_others("ads") == 0


def test_a_row_without_capacity_counts_for_itself() -> None:
    """A name that finds all its cells taken, or a process that finds no row, harms no other."""
    shared = SharedCounts(1, cells=8)
    for number in range(20):
        shared.put(f"t{number}", 1)
    assert sum(shared._counts) == 8
    for number in range(20):
        shared.put(f"t{number}", 0)
    assert sum(shared._counts) == 0
    shared.put("late", 1)
    assert sum(shared._counts) == 1


def test_a_tenant_waits_in_all_processes_together() -> None:
    """What another process keeps waiting of a tenant refuses here; another tenant's is taken."""

    class Elsewhere(SharedCounts):
        def of_others(self, name: str) -> int:
            return 2 if name == "ads" else 0

    limit = WaitingLimit(2, Elsewhere(1))
    command = Renegotiation.__new__(Renegotiation)
    object.__setattr__(command, "ask", SimpleNamespace(request=SimpleNamespace(tenant="ads")))
    told = pytest.raises(ApiProblemError, match="2 requests of tenant 'ads' wait")
    with told, limit.holding(command):
        pass
    object.__setattr__(command, "ask", SimpleNamespace(request=SimpleNamespace(tenant="web")))
    with limit.holding(command):
        pass


@pytest.mark.usefixtures("clock")
def test_one_call_too_many_is_reported(open_service: Open) -> None:
    """429 with Retry-After, on whatever route; other users continue."""
    server = guarded(open_service, tick_s=0, rate=2)
    for _ in range(4):
        assert server.call("user", "GET", "/v1/plan").status_code == 200
    told = server.call("user", "POST", "/v1/reservations", {"rdl": ATOM})
    assert (told.status_code, told.get_json()["code"]) == (429, "too_many")
    assert told.headers["Retry-After"] == "1"
    assert server.call("other", "GET", "/v1/plan").status_code == 200


def test_a_tenant_keeps_only_so_much_waiting(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While two requests of a tenant wait, a third is 429; another tenant's is taken."""
    server = guarded(open_service, tick_s=0, tenant_waiting=2)
    going, entered = threading.Event(), threading.Event()
    place = screening.place

    def slow(waiting: Any, view: Any, limits_of: Any) -> None:
        entered.set()
        going.wait(300)
        place(waiting, view, limits_of)

    monkeypatch.setattr(group_commit, "place", slow)
    answers: list[int] = []

    def post(walker: str) -> None:
        client = server.service.app.test_client()
        headers = {"Authorization": f"Bearer {server.secrets[walker]}"}
        answer = client.post("/v1/reservations", json={"rdl": ATOM}, headers=headers)
        answers.append(answer.status_code)

    waiting = server.service.runtime.planner._waiting
    threads = [threading.Thread(target=post, args=("user",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    eventually(lambda: waiting._waiting.get("ads") == 2)
    post("user")
    assert answers == [429]
    threads.append(threading.Thread(target=post, args=("other",)))
    threads[-1].start()
    eventually(lambda: waiting._waiting.get("web") == 1)
    going.set()
    for thread in threads:
        thread.join(300)
    assert sorted(answers) == [201, 201, 201, 429]
    assert not waiting._waiting


def test_a_batch_is_taken_whole_where_none_waits(open_service: Open) -> None:
    """The limit is on what waits together: one large batch is no reason to refuse it."""
    server = guarded(open_service, tick_s=0, tenant_waiting=2)
    answer = server.call("user", "POST", "/v1/reservations:batch", [{"rdl": ATOM}] * 5)
    assert [one["status"] for one in answer.get_json()["results"]] == [201] * 5
