"""`bars`: 10,000 reservations as columns and a skyline of them, compressed as they are sent.

Measured is what a server does for ``GET /v1/plan/bars?rows=true`` and for the skyline besides HTTP.
The windows of reservations are read once, at the first answer: that time stands apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from bench.cases.service.reads import filled_plan
from planner.plan.plan import Plan
from service.access.user import LOCAL_USER
from service.api.compression import compress_response
from service.calls.plan.bars import BarSpan, bars
from service.calls.plan.series import PlanSpan
from service.calls.plan.skyline import skyline
from service.response import Response
from service.windows import WindowBook

NAME = "bars"

#: What an answer with 10,000 bars may take.
_MOST_MS = 30
_MOST_KB = 250


def run(small: bool) -> dict[str, object]:
    """Measure both; ms of processor time, the best of five, and the bytes sent."""
    size = 1_000 if small else 10_000
    plan, book = filled_plan(size), WindowBook()

    def reading() -> AbstractContextManager[Plan]:
        return nullcontext(plan)

    def all_bars() -> Response:
        return _sent(bars(reading, book, BarSpan(rows=True), LOCAL_USER))

    def a_skyline() -> Response:
        return _sent(skyline(plan, PlanSpan(), "cpu", "tenant", LOCAL_USER))

    figures: dict[str, object] = {"first_ms": _timed(all_bars)}
    for name, answer in (("bars", all_bars), ("skyline", a_skyline)):
        figures[f"{name}_ms"] = min(_timed(answer) for _ in range(5))
        figures[f"{name}_kb"] = round(len(answer().payload()) / 1000, 1)
    params = {"reservations": size, "most_ms": _MOST_MS, "most_kb": _MOST_KB}
    return {"params": params, "figures": figures}


def _sent(body: dict[str, object]) -> Response:
    return compress_response(Response(200, body), "gzip")


def _timed(work: Callable[[], object]) -> float:
    begin = time.thread_time()
    work()
    return round(1000 * (time.thread_time() - begin), 2)
