"""`http_days`: the Facebook day posted to a real server, one by one and as one batch.

A server's clock stamps submissions, while a trace's windows count from its own midnight. So the
cluster file names no origin, which makes the server's start the origin, and every window lies
`LEAD_S` later than in the trace: the whole day is asked for before its first window opens. What
may run when is then the same problem as offline, and posts in the order of the trace, each seeing
only what was promised before, must accept the very requests that the offline plan accepts.

The answers are counted, and the Plan is read back over HTTP and judged by the validator.
"""

from __future__ import annotations

import json
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from bench.cases.service.load.posting import message, read_answer
from bench.cases.service.load.processes import serving
from bench.workloads.traces import SKIPPED, Day, swim_day, traces_folder
from planner.agents import agent_named
from planner.validation.validate import validate
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_from_nothing
from service.cli.client.plan.export import served_plan
from service.cli.client.server import Server

NAME = "http_days"

#: Steps of 10 s fit in it whole; longer than posting the day takes.
LEAD_S: Final = 900
MACHINES: Final = (40, 24, 16)
WORKERS: Final = 2
THREADS: Final = 16
AGENT: Final = "gree-l"

_PATH: Final = "/v1/reservations"

#: Posts bodies to a port; returns status and code of each, and the seconds of each call.
Poster: TypeAlias = Callable[[int, Sequence[bytes]], tuple[list[tuple[int, str]], list[float]]]


def run(small: bool) -> dict[str, object]:
    """Post the day in both ways for each size of cluster; figures by machines."""
    folder = traces_folder()
    params = {"agent": AGENT, "workers": WORKERS, "threads": THREADS, "lead_s": LEAD_S}
    if folder is None:
        return {"params": params, "figures": SKIPPED}
    limit, counts = (60, MACHINES[-1:]) if small else (None, MACHINES)
    figures = {}
    for count in counts:
        day = swim_day(folder, count, limit, lead_s=LEAD_S)
        figures[f"swim_{count}"] = {
            "requests": len(day.raw),
            "one_by_one": _posted(day, one_by_one),
            "batch": _posted(day, as_batch),
        }
    return {"params": params, "figures": figures}


def bodies_of(day: Day) -> list[bytes]:
    """Return what a client posts for each line: without `submitted`, which the server decides."""
    kept = ({key: value for key, value in line.items() if key != "submitted"} for line in day.raw)
    return [json.dumps(body, separators=(",", ":")).encode() for body in kept]


def one_by_one(port: int, bodies: Sequence[bytes]) -> tuple[list[tuple[int, str]], list[float]]:
    """Post each body when the one before is answered, on one connection."""
    answers, taken = [], []
    with _connected(port) as connection:
        for body in bodies:
            began = time.perf_counter()
            connection.sendall(message(body, "application/json", _PATH))
            status, answer = read_answer(connection)
            taken.append(time.perf_counter() - began)
            answers.append((status, _code(json.loads(answer))))
    return answers, taken


def as_batch(port: int, bodies: Sequence[bytes]) -> tuple[list[tuple[int, str]], list[float]]:
    """Post all bodies as one batch of JSON lines, each on its own."""
    with _connected(port) as connection:
        began = time.perf_counter()
        sent = message(b"\n".join(bodies), "application/x-ndjson", f"{_PATH}:batch")
        connection.sendall(sent)
        status, answer = read_answer(connection)
        taken = time.perf_counter() - began
    if status != 200:
        raise RuntimeError(f"the batch is answered {status}: {answer[:500]!r}")
    results = json.loads(answer)["results"]
    return [(one["status"], _code(one["body"])) for one in results], [taken]


def _wait_for_all_workers(port: int) -> None:
    """Return when so many connections in a row find a worker ready that every one must be."""
    server, until, in_a_row = Server(f"http://127.0.0.1:{port}"), time.monotonic() + 60, 0
    while in_a_row < 30:
        in_a_row = in_a_row + 1 if server.call("GET", "/readyz").ok else 0
        if time.monotonic() > until:
            raise RuntimeError("not every worker is ready after 60 s")
        time.sleep(0.02)


def _connected(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _code(body: dict[str, Any]) -> str:
    return str(body.get("code", ""))


def _posted(day: Day, post: Poster) -> dict[str, object]:
    """Return the figures of one way of posting, on a server and a database of its own."""
    bodies = bodies_of(day)
    with tempfile.TemporaryDirectory(prefix="agenda-bench-") as name:
        options = {"workers": WORKERS, "threads": THREADS, "cluster_toml": day.toml}
        with serving("service", Path(name), **options) as port:  # type: ignore[arg-type]
            _wait_for_all_workers(port)
            answers, taken = post(port, bodies)
            document = served_plan(Server(f"http://127.0.0.1:{port}"))
    asked = [line["id"] for line in day.raw]
    violations = validate(document, asked=asked)
    granted = {id_ for id_, (status, _) in zip(asked, answers, strict=True) if status == 201}
    if violations:
        raise AssertionError(f"{len(violations)} violations, the first: {violations[0]}")
    if granted != {entry["id"] for entry in document["reservations"]}:
        raise AssertionError("the stored Plan does not hold what was answered")
    seconds, taken = sum(taken), sorted(taken)
    codes = Counter(f"{status} {code}".strip() for status, code in answers if status != 201)
    metrics = document["metrics"]
    return {
        "accepted": len(granted),
        "acceptance": round(metrics["acceptance"], 4),
        "preemption": metrics["preemption"],
        "refused": dict(sorted(codes.items())),
        "seconds": round(seconds, 2),
        "per_s": round(len(bodies) / seconds, 1),
        "p50_ms": round(1000 * taken[len(taken) // 2], 2),
        "p99_ms": round(1000 * taken[int(0.99 * len(taken))], 2),
        "violations": len(violations),
        "same_as_offline": granted == _offline(day),
    }


def _offline(day: Day) -> set[str]:
    """Return the ids that the same agent accepts when it plans the file."""
    cluster = day.cluster
    workload = compile_workload(day.lines, cluster)
    planned = plan_from_nothing(cluster, workload, agent_named(AGENT))
    pairs = zip(workload.requests, planned.results, strict=True)
    return {request.id for request, result in pairs if result.placed}
