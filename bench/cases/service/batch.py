"""`batch`: where the processor time of one batch of 10,000 requests goes, from bytes to bytes.

One process, without HTTP's server: a body of JSON lines, each a stage in a window, as `http_admit`
posts them. Times are of the processor, of the threads that take part, so that other work on the
machine does not count; they are in microseconds a request. The parts are measured one inside the
other no deeper than named here; `rest` is what the whole has in addition.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final
from unittest import mock

from flask.testing import FlaskClient

from bench.cases.service.load.posting import request_of
from bench.cases.service.load.processes import CLUSTER
from service.app import create_app
from service.clock import SystemClock
from service.config import ServiceConfig
from service.runtime import open_runtime
from service.server import settle_memory

NAME = "batch"

#: What each part is called, and the function that does it.
_PARTS: Final = (
    ("read_json", "service.resources.reservations.parse_json"),
    ("read_fields", "service.resources.reservations.read_object"),
    ("read_rdl", "service.asks.read_source"),
    ("compile", "service.runtime.Runtime.compile"),
    ("screen", "service.commits.group_commit.screen_changes"),
    ("place", "service.commits.group_commit.place"),
    ("prepare", "service.commits.group_commit.GroupCommit._prepare"),
    ("answers", "service.commits.group_commit.admitted_answers"),
    ("audit", "service.commits.group_commit.audit_rows"),
    ("oracle", "service.commits.group_commit.first_violation"),
    ("write_record", "planner.plan.records.commit_records.CommitRecord.to_json"),
    ("append", "service.store.Store.append"),
    ("apply", "service.commits.replay.LogReplay.apply"),
    ("render", "service.rendering._batch_body"),
)


def run(small: bool) -> dict[str, object]:
    """Measure the least of three batches, whole, and one in parts."""
    size, rounds = (500, 1) if small else (10_000, 3)
    with tempfile.TemporaryDirectory(prefix="agenda-bench-") as name, ExitStack() as stack:
        client = stack.enter_context(open_client(Path(name)))
        for warm in range(2):
            _post(client, size // 10, warm)
        settle_memory()
        whole = min(_post(client, size, 10 + number) for number in range(rounds))
        parts: dict[str, float] = defaultdict(float)
        for part, place in _PARTS:
            stack.enter_context(_timed(part, place, parts))
        total = _post(client, size, 20)
    parts["rest"] = total - sum(parts.values())
    each = {
        part: {"us": round(1e6 * taken / size, 1), "share": round(taken / total, 3)}
        for part, taken in parts.items()
    }
    figures = {"whole_us": round(1e6 * whole / size, 1), "per_cpu_s": round(size / whole)}
    return {
        "params": {"batch": size, "rounds": rounds, "database": "sqlite"},
        "figures": {**figures, "parts": each},
    }


@contextmanager
def open_client(folder: Path) -> Iterator[FlaskClient]:
    """Yield a client of a service on an empty database."""
    cluster = folder / "cluster.toml"
    cluster.write_text(CLUSTER)
    config = ServiceConfig(database=f"sqlite:///{folder / 'batch.db'}", cluster=cluster, tick_s=0)
    runtime = open_runtime(config, SystemClock())
    try:
        client = create_app(config, runtime).test_client()
        runtime.wait_ready(300)
        yield client
    finally:
        runtime.close()


def _post(client: FlaskClient, count: int, seed: int) -> float:
    """Post a batch and return the processor time that it took, s."""
    generator = random.Random(seed)
    lines = "\n".join(json.dumps(request_of(generator, seed)) for _ in range(count)).encode()
    began = time.process_time()
    answer: Any = client.post(
        "/v1/reservations:batch", data=lines, content_type="application/x-ndjson"
    )
    taken = time.process_time() - began
    statuses = [result["status"] for result in json.loads(answer.get_data())["results"]]
    if statuses != [201] * count:
        raise RuntimeError(f"granted {statuses.count(201)} of {count}")
    return taken


@contextmanager
def _timed(part: str, place: str, parts: dict[str, float]) -> Iterator[None]:
    """Add the time of each call of a function to its part."""
    owner, _, name = place.rpartition(".")
    original: Callable[..., Any] = vars(resolve_name(owner))[name]

    def timed(*given: Any, **named: Any) -> Any:
        began = time.thread_time()
        try:
            return original(*given, **named)
        finally:
            parts[part] += time.thread_time() - began

    with mock.patch(place, timed):
        yield
