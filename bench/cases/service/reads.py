"""`reads`: lists of reservations while the Plan holds 100,000 of them, and what these take.

Measured is what a server does for a list apart from HTTP: it looks for what matches, makes objects
of it, and writes JSON. A rare tenant is at ten places; a rare state at ten; the whole list is read
in pages of a thousand, a narrow time in pages of a hundred.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial

import msgspec
import numpy as np
import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from planner.cluster.cluster import Cluster, MachineGroup
from planner.plan.plan import Plan
from planner.plan.records.changes import Cancel
from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.reservation_records import Admitted
from planner.reservations.reservation import AtomAllocation, Holding, RequestDetails
from rdl.resources import Resources
from service.resources import reservation_pages as listing
from service.shown_rows import ShownRows
from service.store.archive import ArchiveRows
from service.store.schema import metadata
from service.windows import WindowBook

NAME = "reads"

_SECONDS_OF_STEP = 60
_STEPS = 10_080
_BUNDLE = Resources.of({"cpu": 1000, "memory": 2048})
_MACHINES = MachineGroup("standard", 4000, Resources.of({"cpu": 32_000, "memory": 65_536}))
_TENANTS = 20
_RARE = 10


def run(small: bool) -> dict[str, object]:
    """Measure lists of each kind; ms of processor time, the best of three; once of all."""
    size = 10_000 if small else 100_000
    plan = filled_plan(size)
    source = _Source(plan)
    hour_ms = 3_600_000
    cases = {
        "tenant": listing.Filter(tenant="rare"),
        "state": listing.Filter(state="cancelled"),
        "hour": listing.Filter(start_ms=72 * hour_ms, end_ms=73 * hour_ms),
        "none": listing.Filter(tenant="nobody"),
    }
    figures: dict[str, object] = {}
    for name, wanted in cases.items():
        times = [_timed(partial(_read, source, wanted, 100, 1)) for _ in range(3)]
        figures[f"{name}_ms"] = min(times)
    figures["whole_ms"] = _timed(lambda: _read(source, listing.Filter(), 1000, size))
    figures["bytes_each"] = round(plan.table.nbytes() / size)
    return {"params": {"reservations": size, "rare": _RARE}, "figures": figures}


def _timed(work: Callable[[], object]) -> float:
    begin = time.thread_time()
    work()
    return round(1000 * (time.thread_time() - begin), 2)


class _Source:
    """A Plan that no one changes, with an empty archive."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        engine = sa.create_engine("sqlite://", poolclass=StaticPool)
        metadata.create_all(engine)
        self.archive = ArchiveRows(engine)
        self.shown_rows = ShownRows(WindowBook())

    def reading(self) -> AbstractContextManager[Plan]:
        """Hold the Plan."""
        return nullcontext(self._plan)


def _read(
    source: listing.Source,
    wanted: listing.Filter,
    limit: int,
    pages: int,
) -> None:
    """Read this many pages, or all that there are, as JSON."""
    cursor = listing.PageCursor()
    for _ in range(pages):
        page = listing.page_of(source, wanted, cursor, limit)
        msgspec.json.encode(page)
        if page["next"] is None:
            return
        cursor = listing.PageCursor(page["next"][0], int(page["next"][1:]))


def filled_plan(size: int) -> Plan:
    """Return a Plan of `size` reservations in a week; some a rare tenant's, some cancelled."""
    week_ms, origin = 7 * 86_400_000, datetime(2026, 1, 5, tzinfo=UTC)
    cluster = Cluster(1000 * _SECONDS_OF_STEP, week_ms, (_MACHINES,), origin=origin)
    plan = Plan(cluster, cluster.grid())
    rng = np.random.default_rng(size)
    starts = rng.integers(0, _STEPS - 60, size).tolist()
    rare = set(range(0, size, size // _RARE))
    for first in range(0, size, 1000):
        changes = [
            _admitted(number, starts[number], "rare" if number in rare else f"t{number % _TENANTS}")
            for number in range(first, first + 1000)
        ]
        plan.apply(CommitRecord(plan.version + 1, 0, tuple(changes)))
    for number in sorted(rare):
        prepared = plan.prepare([Cancel(f"job-{number + 1:07d}")], plan.version)
        assert prepared.record is not None
        plan.apply(prepared.record)
    return plan


def _admitted(number: int, start: int, tenant: str) -> Admitted:
    rows = np.array([[start, start + 30, 1 + number % 3], [start + 30, start + 45, 1]], np.int64)
    holding = Holding((AtomAllocation("0", _BUNDLE, None, rows),), start, start + 45)
    text = f"window(atom(<1 cpu, 2 GiB memory>, 1, 3, 15m, 1h45m), {start}m, {start + 60}m)"
    return Admitted(
        f"job-{number:07d}", tenant, "default", 0, 1.0, 0, "gree-l", RequestDetails(text), holding
    )
