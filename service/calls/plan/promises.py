"""What became of promises, tenant by tenant: kept, late, degraded, failed, below."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from planner.plan.plan import Plan
from planner.plan.table.column_reading import changed_between, histories_of, ids_of, scope_column
from planner.reservations.state import NUMBERED_STATES, State
from rdl.time_grid import seconds_of
from service.access.user import User
from service.calls.plan.series import PlanSpan
from service.dispatching.documents import counted_in
from service.problems import ApiError, malformed
from service.store import ApplicationRow, PageOf

if TYPE_CHECKING:
    from service.runtime import Runtime

#: Words of a history that say that less was held for a while, and that it stands elsewhere.
_LESS: Final = frozenset({"degraded", "regained"})
_ELSEWHERE: Final = frozenset({"moved", "relocated", "optimized"})

#: Applications read at once.
_PAGE: Final = 1000


@dataclass(slots=True)
class PromiseCounts:
    """Reservations of one tenant that hold something in a time, or to which something happened.

    Attributes
    ----------
    promised
        All of them that were not given up by their owners.
    kept
        Those that never held less than was promised, and whose work was not late.
    degraded, failed
        Those that held less for a while (some still do), and those that were given up for it.
    moved
        Those that stand elsewhere, in time or on other machines, than at first; they may be kept.
    late
        Those with an application that ended after them, or runs on though they are over.
    below
        Those that are owed machines now and lack some.
    cancelled
        Those that their owners gave up.
    """

    promised: int = 0
    kept: int = 0
    degraded: int = 0
    failed: int = 0
    moved: int = 0
    late: int = 0
    below: int = 0
    cancelled: int = 0


def promises(
    runtime: Runtime, user: User, start_ms: int | None, end_ms: int | None
) -> dict[str, Any]:
    """Return the counts of each tenant that a user acts for, and of all others together.

    A time runs from the origin, and to now, when absent.

    Raises
    ------
    ApiProblemError
        ``malformed`` for a time that ends before it starts.
    """
    now_ms = runtime.now_ms()
    start_ms = 0 if start_ms is None else max(0, start_ms)
    end_ms = max(now_ms, start_ms + 1) if end_ms is None else end_ms
    if end_ms <= start_ms:
        message = f"from, {seconds_of(start_ms)} s, is not before to, {seconds_of(end_ms)} s"
        raise malformed([ApiError(message, pointer="?from")])
    ended = _ends_of_work(runtime)
    below = set(msgspec.json.decode(runtime.dispatcher.rows.assignment()).get("below", ()))
    with runtime.reading() as plan:
        span = PlanSpan(start_ms, end_ms)
        counts = _counted(plan, user, span, _WorkFacts(ended, below, now_ms))
        version = plan.version
    shown = [{"tenant": name, **asdict(one)} for name, one in counts.items()]
    shown.sort(key=lambda one: (one["tenant"] is None, str(one["tenant"])))
    return {
        "version": version,
        "from": seconds_of(start_ms),
        "to": seconds_of(end_ms),
        "from_at": runtime.calendar(start_ms),
        "to_at": runtime.calendar(end_ms),
        "tenants": shown,
    }


@dataclass(frozen=True, slots=True)
class _WorkFacts:
    """What the dispatcher says: last end of work by reservation, who is below now; now itself."""

    ended_ms: Mapping[str, int | None]
    below: set[str]
    now_ms: int


def _counted(
    plan: Plan, user: User, span: PlanSpan, beside: _WorkFacts
) -> dict[str | None, PromiseCounts]:
    table, grid = plan.table, plan.grid
    assert span.start_ms is not None
    assert span.end_ms is not None
    first, last = grid.floor(span.start_ms), grid.ceil(span.end_ms)
    meta = table.meta
    held = np.flatnonzero((meta["begin"] < last) & (meta["finish"] > first))
    # What has lost all that it held holds nothing in any time.
    numbers = np.union1d(held, changed_between(table, span.start_ms, span.end_ms))
    tenants = scope_column(table, numbers, "tenant")
    changed = histories_of(table, numbers)
    ids = ids_of(table, numbers)
    counts: dict[str | None, PromiseCounts] = {}
    for place, number in enumerate(numbers.tolist()):
        word = tenants.words[int(tenants.place[place])]
        count = counts.setdefault(word if user.acts_for(word) else None, PromiseCounts())
        state = NUMBERED_STATES[int(meta["state"][number])]
        words = {entry.what for entry in changed.get(number, ())}
        finish_ms = grid.ms(min(int(meta["finish"][number]), grid.horizon))
        _count(count, state, words, _is_late(ids[place], finish_ms, beside))
        count.below += ids[place] in beside.below
    return counts


def _count(count: PromiseCounts, state: State, words: set[str], late: bool) -> None:
    if state is State.CANCELLED:
        count.cancelled += 1
        return
    less = state is State.DEGRADED or bool(words & _LESS)
    count.promised += 1
    count.failed += state is State.FAILED
    count.degraded += less
    count.moved += bool(words & _ELSEWHERE)
    count.late += late
    count.kept += not (less or late or state is State.FAILED)


def _is_late(id_: str, finish_ms: int, beside: _WorkFacts) -> bool:
    if id_ not in beside.ended_ms:
        return False
    ended_ms = beside.ended_ms[id_]
    return (beside.now_ms if ended_ms is None else ended_ms) > finish_ms


def _ends_of_work(runtime: Runtime) -> dict[str, int | None]:
    """Return when the last application of each reservation ended; None: one runs or waits."""
    found: dict[str, int | None] = {}
    for row in _all_rows(runtime):
        reservation = counted_in(row.document)[0]
        if reservation is None:
            continue
        ended = msgspec.json.decode(row.status).get("ended")
        known = found.get(reservation, 0)
        if ended is None or known is None:
            found[reservation] = None
        else:
            found[reservation] = max(known, round(1000 * ended))
    return found


def _all_rows(runtime: Runtime) -> Iterable[ApplicationRow]:
    after: tuple[int, str] | None = None
    while True:
        page = runtime.dispatcher.rows.page(PageOf(after, limit=_PAGE))
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].submitted_ms, page[-1].id
