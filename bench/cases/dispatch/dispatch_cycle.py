"""`dispatch_cycle`: an arrival or a departure with 10,000 applications waiting and 1,000 running.

Each application has two core components and two elastic parts of eight; the pool is as large as
what a thousand of them ask for at most, so that about a thousand run. Events are measured one by
one, through the same calls as the dispatcher makes, for orderings whose keys do not move, move
with time, move with progress and depend on shares. Alongside the wall's clock stands the thread's
own time, which other processes on the machine do not lengthen.
"""

from __future__ import annotations

import random
import statistics
import time

NAME = "dispatch_cycle"

ORDERS = ("fifo", "fifo-backfill", "sjf-3d", "srpt-2d2!", "hrrn-3d", "drf")


def run(small: bool) -> dict[str, object]:
    """Time events for every ordering, and one cycle from scratch."""
    waiting, running, events = (500, 50, 60) if small else (10_000, 1_000, 600)
    figures: dict[str, object] = {}
    _events("fifo", 20, 4, 4)  # compiles where no cache holds the kernels yet
    for order in ORDERS:
        wall, busy, serving = _events(order, waiting, running, events)
        label = order.replace("!", "-preemptive")
        figures[f"{label}_median_ms"] = round(statistics.median(wall) * 1e3, 4)
        figures[f"{label}_p99_ms"] = round(sorted(wall)[int(len(wall) * 0.99)] * 1e3, 4)
        figures[f"{label}_cpu_ms"] = round(busy / events * 1e3, 4)
        figures[f"{label}_running"] = serving
    figures["from_nothing_ms"] = round(_from_nothing(waiting, running) * 1e3, 3)
    return {
        "params": {"waiting": waiting, "running": running, "events": events},
        "figures": figures,
    }


def _claim(index: int, draw: random.Random):  # type: ignore[no-untyped-def]
    from dispatch.pool.claims import Claim, ClaimPart

    each = (draw.randint(100, 2000), draw.randint(256, 8192))
    return Claim(
        f"e{index}",
        (ClaimPart(2, each),),
        (ClaimPart(8, each), ClaimPart(8, (each[0] // 2, each[1]))),
        float(index),
        draw.uniform(60, 3600),
        draw.randint(0, 3),
        f"t{draw.randint(0, 20)}",
    )


def _filled(order: str, waiting: int, running: int):  # type: ignore[no-untyped-def]
    """Return a scheduler with the lines full, and the source of further claims."""
    from dispatch.pool.ordering import ordering_named
    from dispatch.pool.scheduler import ElasticScheduler

    draw = random.Random(7)
    ordering = ordering_named(order.rstrip("!"), preemptive=True if "!" in order else None)
    scheduler = ElasticScheduler({"cpu": 0, "memory": 0}, ordering)
    for index in range(waiting + running):
        scheduler.arrive(_claim(index, draw), float(index))
    # Sixteen elastic components of 14 equivalents and two core ones, 1,050 m and 4.2 GiB each.
    total = {"cpu": int(running * 14 * 1050), "memory": int(running * 18 * 4224)}
    return scheduler, draw, total


def _events(order: str, waiting: int, running: int, events: int) -> tuple[list[float], float, int]:
    scheduler, draw, total = _filled(order, waiting, running)
    now = float(waiting + running)
    scheduler.set_total(total, now)
    serving = len(scheduler.service_order())
    times: list[float] = []
    busy = 0.0
    for index in range(events):
        now += 1.0
        if index % 2:
            claim = _claim(waiting + running + index, draw)
            began, spent = time.perf_counter(), time.thread_time()
            scheduler.arrive(claim, now)
        else:
            present = scheduler.service_order()
            gone = present[draw.randrange(len(present))]
            began, spent = time.perf_counter(), time.thread_time()
            scheduler.depart(gone, now)
        times.append(time.perf_counter() - began)
        busy += time.thread_time() - spent
    return times, busy, serving


def _from_nothing(waiting: int, running: int) -> float:
    """Best of three: no one in service, then all that fits is admitted and granted at once."""
    best = float("inf")
    for _ in range(3):
        scheduler, _, total = _filled("fifo", waiting, running)
        began = time.perf_counter()
        scheduler.set_total(total, float(waiting + running))
        best = min(best, time.perf_counter() - began)
    return best
