"""Estimate when work without a reservation may start, from the free capacity of the Plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from dispatch.applications.application import Application
from dispatch.cycle.cover import cover_faults, is_coverable
from dispatch.entitlements.follower import PlanFollower
from dispatch.machines.machine_pool import MachinePool
from planner.plan.plan import Plan
from rdl.time_grid import seconds_of
from service.access.user import User
from service.dispatching.documents import read_document
from service.http.kit import Answer, Calls, Count, Instant, doc, one_of
from service.ownership import require_visible
from service.resources.executors import NO_EXECUTOR, served_machines
from service.runtime import Runtime
from service.store import ApplicationRow

#: Maximum numbers of earlier applications that are placed one by one, of entitlements of the
#: reservation that are read ahead, and of applications of the reservation that are considered.
_MOST_BEFORE: Final = 2_000
_MOST_AHEAD: Final = 200
_MOST_FELLOWS: Final = 50


class BestEffortRoom:
    """The Plan's free capacity from now on, as totals, in which work is placed greedily.

    Parameters
    ----------
    plan
        The Plan; the caller holds its lock.
    """

    def __init__(self, plan: Plan) -> None:
        self._first = max(plan.now, plan.ledger.first)
        self.resources = tuple(plan.cluster.resources)
        rows = len(self.resources)
        self._free = plan.ledger.free[:rows, self._first - plan.ledger.first :].copy()
        self._grid = plan.grid

    def lay(self, demand: Mapping[str, int], length_ms: int | None, *, now: bool) -> int | None:
        """Place `demand` at its earliest start; return ms from the origin, None if it never fits.

        Parameters
        ----------
        length_ms
            Duration; None: to the end of the planned time.
        now
            Whether it runs already: it is then placed from now on, even if it does not fit.
        """
        steps = self._free.shape[1]
        length = steps if length_ms is None else max(1, self._grid.ceil(length_ms))
        needed = np.array([demand.get(name, 0) for name in self.resources], dtype=np.int64)
        place = 0 if now else self._earliest(needed, min(length, steps))
        if place is None:
            return None
        self._free[:, place : place + length] -= needed[:, None]
        return self._grid.ms(self._first + place)

    def _earliest(self, needed: NDArray[np.int64], length: int) -> int | None:
        short: NDArray[np.bool_] = np.any(self._free < needed[:, None], axis=0)
        # Work that starts near the end of the planned time may continue after it.
        before = np.concatenate([[0], np.cumsum(short), np.full(length, short.sum())])
        clear = np.flatnonzero(before[length : length + len(short)] == before[: len(short)])
        clear = clear[~short[clear]]
        return int(clear[0]) if len(clear) else None


class StartEstimate(Answer):
    id: str
    state: str
    start: Annotated[float | None, doc("Seconds from the origin; null: unknown.")]
    start_at: Instant | None
    basis: Annotated[
        str,
        one_of(("started", "reservation", "queue", "none")),
        doc("Basis of the estimate: the start itself, its reservation, or the queue."),
    ]
    detail: str
    before: Annotated[Count, doc("Number of earlier applications that have not ended.")]
    without_size: Annotated[
        Count, doc("Number of those without a run time, which count as endless.")
    ]


calls = Calls()


@calls.get(
    "/v1/applications/{id}/estimate",
    "The estimate, and its basis.",
    fails=("not_found",),
)
def estimate_start(runtime: Runtime, id_: str, user: User) -> StartEstimate:
    """Estimate when an application may start, from the free capacity of the Plan.

    Core components of earlier applications are placed into the free capacity of the Plan, each
    for its `size`. It is an estimate: ends come earlier or later than sizes say, the dispatcher may
    put later work first, and machines are counted as totals.
    """
    rows = runtime.dispatcher.rows
    row = rows.get(id_)
    require_visible(user, None if row is None else row.tenant, f"application {id_!r}")
    assert row is not None
    application = read_document(row.document).application
    started_ms = _started_ms(row)
    body: dict[str, Any] = {"id": id_, "state": row.state, "before": 0, "without_size": 0}
    if started_ms is not None or row.over:
        return StartEstimate(**body, **_found(runtime, started_ms, "started", "it has started"))
    earlier = [
        (one, read_document(one.document).application)
        for one in rows.open()
        if (one.submitted_ms, one.id) < (row.submitted_ms, row.id)
    ]
    if application.entitled_by is None:
        why = ""
    else:
        fellows = [one for _, one in earlier if one.entitled_by == application.entitled_by]
        at_ms, why = _covered_from(runtime, application, fellows[-_MOST_FELLOWS:])
        if at_ms is not None:
            return StartEstimate(**body, **_found(runtime, at_ms, "reservation", why))
    found = _estimate_of(runtime, application, [e for e in earlier if e[1].entitled_by is None])
    if why:
        found["detail"] = f"{why}; as best effort: {found['detail']}"
    return StartEstimate(**(body | found))


def _estimate_of(
    runtime: Runtime,
    application: Application,
    earlier: list[tuple[ApplicationRow, Application]],
) -> dict[str, Any]:
    now_ms = runtime.now_ms()
    with runtime.reading() as plan:
        room = BestEffortRoom(plan)
    for row, one in earlier[:_MOST_BEFORE]:
        started_ms = _started_ms(row)
        left_ms = one.size_ms
        if started_ms is not None and left_ms is not None:
            left_ms = max(1, left_ms - (now_ms - started_ms))
        room.lay(_cores(one), left_ms, now=started_ms is not None)
    at_ms = room.lay(_cores(application), application.size_ms, now=False)
    served = served_machines(runtime)
    counts = {
        "before": len(earlier),
        "without_size": sum(one.size_ms is None for _, one in earlier),
    }
    if at_ms is None:
        told = "there is no free capacity for its cores in the planned time"
        return counts | _found(runtime, None, "none", told)
    if not served:
        return counts | _found(runtime, None, "none", NO_EXECUTOR)
    told = "there is free capacity for its cores then, after promised and earlier work"
    if served is not True:
        told += f"; machines with an executor: {served:,}, and the others are counted too"
    return counts | _found(runtime, max(at_ms, now_ms), "queue", told)


def _covered_from(
    runtime: Runtime, application: Application, before: Sequence[Application]
) -> tuple[int | None, str]:
    """Return when its reservation covers an application's cores, in ms from the origin, and why.

    The time is None if the reservation never covers them from now on.
    """
    assert application.entitled_by is not None
    with runtime.reading() as plan:
        pool, grid = MachinePool(plan.cluster), plan.grid
        ahead = list(islice(PlanFollower(plan).ahead(application.entitled_by), _MOST_AHEAD))
    if not ahead:
        return None, "its reservation has no capacity now"
    for step, entitlement in ahead:
        if is_coverable(entitlement, application, pool, before):
            return max(grid.ms(step), runtime.now_ms()), "its reservation covers its cores then"
    faults = cover_faults((one for _, one in ahead), application, pool)
    if faults:
        return None, f"its reservation does not cover it: {faults[0].detail}"
    return None, "earlier applications use the capacity of its reservation"


def _found(runtime: Runtime, at_ms: int | None, basis: str, detail: str) -> dict[str, Any]:
    return {
        "start": None if at_ms is None else seconds_of(at_ms),
        "start_at": None if at_ms is None else runtime.calendar(at_ms),
        "basis": basis,
        "detail": detail,
    }


def _started_ms(row: ApplicationRow) -> int | None:
    started = msgspec.json.decode(row.status).get("started")
    return None if started is None else round(1000 * started)


def _cores(application: Application) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in application.core:
        for name, amount in part.resources.items():
            total[name] = total.get(name, 0) + amount * part.count
    return total
