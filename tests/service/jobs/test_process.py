"""What a process of an optimisation does when its workers are gone."""

from __future__ import annotations

import os
import sys

import msgspec
import pytest

from service.clock import SystemClock
from service.jobs.executors import WorkerError
from service.jobs.process import JobCall, carry_out
from service.store import OptimizationRow, Store
from tests.service.conftest import Open


@pytest.mark.parametrize(
    ("kept", "state", "reason", "result"),
    [
        (b"best", "stopped", "the scheduler is gone: the best so far", b"best"),
        (b"", "failed", "the scheduler is gone", b""),
    ],
)
def test_the_best_that_was_kept_outlives_the_workers(
    open_service: Open,
    monkeypatch: pytest.MonkeyPatch,
    kept: bytes,
    state: str,
    reason: str,
    result: bytes,
) -> None:
    """The job ends with it as one that was stopped; without any it has failed."""
    service = open_service()
    service.runtime.close()  # it would take over what is silent
    store = Store(service.runtime.config.database)
    rows = store.optimizations
    now_ms = SystemClock().now_ms()
    rows.add(OptimizationRow("p-1", now_ms, b"{}", now_ms), most=1)
    read, write = os.pipe()
    job = {
        "id": "p-1",
        "database": service.runtime.config.database,
        "dask": None,
        "clock_file": None,
    }
    os.write(write, msgspec.json.encode(job) + b"\n")
    calls: list[JobCall] = []

    def work(call: JobCall) -> None:
        calls.append(call)
        if len(calls) == 1:
            if kept:
                call.reporter.keep(kept)
            raise WorkerError("the scheduler is gone")
        assert call.reporter.stop()
        call.reporter.ended_with(call.kept, "the best so far")

    with os.fdopen(read) as given, monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", given)
        patched.setattr(os, "nice", lambda _: 0)
        assert carry_out(work) == (0 if kept else 1)
        os.close(write)
    found = rows.get("p-1")
    assert found is not None
    assert (found.state, found.reason, found.result) == (state, reason, result)
    store.close()
