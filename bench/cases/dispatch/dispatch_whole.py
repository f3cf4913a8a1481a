"""`dispatch_whole`: a whole cycle of the dispatcher, placement included.

10,000 applications wait and 1,000 run, as in `dispatch_cycle`; here an event goes through follower,
cover, the line and machines of 32 cores, and a departure frees and fills about forty places. What
the search for machines takes of it is distinguished, for the target of 0.2 ms an event leaves it
out. Times are of the thread, which other processes on the machine lengthen little.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unittest import mock

if TYPE_CHECKING:
    from dispatch.cycle.cycle import CycleScratch
    from dispatch.cycle.moves import Moves
    from dispatch.cycle.placer import Placer
    from dispatch.entitlements.follower import PlanFollower
    from dispatch.loop import DispatchLoop

NAME = "dispatch_whole"

#: The mean application takes so much of a pool, with everything granted: millicores, MiB.
_EACH = (14 * 1050, 18 * 4224)


def run(small: bool) -> dict[str, object]:
    """Time the first cycle, then arrivals and departures in turn."""
    waiting, running, events = (300, 30, 30) if small else (10_000, 1_000, 300)
    _measure(20, 4, 6)  # compiles where no cache holds the kernels yet
    figures = _measure(waiting, running, events)
    return {
        "params": {"waiting": waiting, "running": running, "events": events},
        "figures": figures,
    }


def _measure(waiting: int, running: int, events: int) -> dict[str, float]:
    loop, follower = _world(running)
    draw = random.Random(7)
    for index in range(waiting + running):
        _submit(loop, f"e{index}", index, draw)
    now_ms = 20_000
    first_ms, first_search_ms = _cycle(loop, follower, now_ms)
    times: dict[str, list[tuple[float, float]]] = {"arrival": [], "departure": []}
    for index in range(events):
        now_ms += 10
        what = "arrival" if index % 2 else "departure"
        if what == "arrival":
            _submit(loop, f"x{index}", now_ms, draw)
        else:
            present = [one.id for one in loop.table if one.state == "running"]
            loop.table.finish(present[draw.randrange(len(present))], now_ms)
        times[what].append(_cycle(loop, follower, now_ms))
    figures = {"first_ms": first_ms, "first_search_ms": first_search_ms}
    for what, measured in times.items():
        figures[f"{what}_median_ms"] = statistics.median(one for one, _ in measured)
        apart = [whole - search for whole, search in measured]
        figures[f"{what}_search_apart_median_ms"] = statistics.median(apart)
    return {name: round(value, 3) for name, value in figures.items()}


def _world(running: int) -> tuple[DispatchLoop, PlanFollower]:
    from dispatch.backends.in_memory import InMemoryBackend
    from dispatch.cycle.dispatcher import Dispatcher
    from dispatch.entitlements.follower import PlanFollower
    from dispatch.executions.table import ExecutionTable
    from dispatch.loop import DispatchLoop
    from dispatch.machines.machine_pool import MachinePool
    from planner.files import cluster_from_json
    from planner.plan.plan import Plan

    count = running * _EACH[0] // 32_000 + 1
    machine = {"cpu": 32, "memory": f"{running * _EACH[1] // count} MiB"}
    groups = [{"name": "node", "count": count, "resources": machine}]
    cluster = cluster_from_json({"step": "60s", "horizon": "24h", "machines": groups})
    pool = MachinePool(cluster)
    loop = DispatchLoop(
        ExecutionTable(pool),
        Dispatcher(),
        InMemoryBackend(pool.names),
    )
    return loop, PlanFollower(Plan(cluster, cluster.grid()))


def _submit(loop: DispatchLoop, name: str, at_ms: int, draw: random.Random) -> None:
    from dispatch.applications.application import Application, Component
    from rdl.resources import Resources

    cpu, memory = draw.randint(100, 2000), draw.randint(256, 8192)
    large = Resources.of({"cpu": cpu, "memory": memory})
    half = Resources.of({"cpu": cpu // 2, "memory": memory})
    parts = (
        Component("core", 2, True, large),
        Component("wide", 8, False, large),
        Component("slim", 8, False, half),
    )
    loop.table.submit(name, Application(name, parts, size_ms=draw.randint(60, 3600) * 1000), at_ms)


@dataclass(slots=True)
class _Search:
    """Processor seconds in which dispatchers looked for machines."""

    seconds: float = 0.0


@contextmanager
def _timed_search() -> Iterator[_Search]:
    """Add up the time of every search for machines."""
    from dispatch.cycle.unplaced import Unplaced

    search, place = _Search(), Unplaced.place

    def timed(unplaced: Unplaced, scratch: CycleScratch, moves: Moves, placer: Placer) -> None:
        began = time.thread_time()
        place(unplaced, scratch, moves, placer)
        search.seconds += time.thread_time() - began

    with mock.patch.object(Unplaced, "place", timed):
        yield search


def _cycle(loop: DispatchLoop, follower: PlanFollower, now_ms: int) -> tuple[float, float]:
    """Return the milliseconds of one cycle, and of the search for machines within."""
    loop.take_events(now_ms)
    with _timed_search() as search:
        began = time.thread_time()
        directive = follower.follow(now_ms)
        cycle = loop.dispatcher.run_cycle(directive, loop.table, loop.table.pool)
        spent = time.thread_time() - began
    loop.backend.apply(cycle.deltas, now_ms)
    loop.take_events(now_ms)
    return spent * 1e3, search.seconds * 1e3
