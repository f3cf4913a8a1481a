"""Create, list, read and delete calendar feeds; one function for each call."""

from __future__ import annotations

import hashlib
import os
import secrets
from typing import Any, Final

from planner.plan.table.column_reading import ids_of
from planner.reservations.reservation import Reservation
from planner.reservations.state import State
from rdl.durations import rfc3339_text
from service.access.actor import present_actor
from service.access.user import User
from service.calls.events.calendar_text import calendar_text, spans_of
from service.calls.events.webhooks import tenant_for
from service.clock import instant_of
from service.problems import ApiError, malformed_problem, problem
from service.runtime import Runtime
from service.store import AuditRow
from service.store.rows.calendar_feeds import FeedRow, TooManyFeedsError

#: Most feeds of one database.
MOST: Final = 1_000

#: How long what is over stays in a calendar, ms; and most reservations of one calendar.
_KEPT_MS: Final = 30 * 86_400_000
_MOST_SHOWN: Final = 2_000

#: Reservations that are read under one hold of the Plan.
_READ: Final = 100


def create(runtime: Runtime, user: User, tenant: str | None) -> dict[str, Any]:
    """Keep a feed; return it with the token that reads it, which is told only here.

    Raises
    ------
    ApiProblemError
        ``malformed`` where no tenant is named; ``forbidden`` for one that `user` does not act for;
        ``too_many``.
    """
    whose = tenant_for(user, tenant)
    if whose is None:
        raise malformed_problem([ApiError("name the tenant", pointer="/tenant")])
    token = secrets.token_urlsafe(24)
    id_, maker = f"c-{os.urandom(10).hex()}", present_actor().key
    row = FeedRow(id_, _hash(token), whose, runtime.clock_ms(), maker)
    try:
        done = _audit_row(runtime, row, "create_calendar_feed")
        runtime.store.calendar_feeds.add(row, MOST, done)
    except TooManyFeedsError as error:
        detail = f"{MOST} feeds are kept, half of them for one tenant: {error}; delete one"
        raise problem("too_many", detail) from error
    return {**_json_of(runtime, row), "token": token, "path": f"/v1/calendar.ics?token={token}"}


def page(runtime: Runtime, user: User) -> dict[str, Any]:
    """Return the feeds that somebody may see, oldest first, without their tokens."""
    rows = [one for one in runtime.store.calendar_feeds.page() if user.acts_for(one.tenant)]
    return {"feeds": [_json_of(runtime, row) for row in rows]}


def delete(runtime: Runtime, user: User, id_: str) -> None:
    """Let nobody read a feed any more.

    Raises
    ------
    ApiProblemError
        ``not_found``.
    """
    rows = runtime.store.calendar_feeds.page()
    mine = next((row for row in rows if row.id == id_ and user.acts_for(row.tenant)), None)
    if mine is None:
        raise problem("not_found", f"there is no calendar feed {id_!r}")
    runtime.store.calendar_feeds.delete(id_, _audit_row(runtime, mine, "delete_calendar_feed"))


def read(runtime: Runtime, token: str) -> bytes:
    """Return the calendar that a token reads.

    Raises
    ------
    ApiProblemError
        ``not_found``; ``gone`` where who made the feed may not see its tenant any more.
    """
    row = runtime.store.calendar_feeds.find(_hash(token))
    if row is None:
        raise problem("not_found", "no calendar is read with this token")
    if (fault := _fault(runtime, row)) is not None:
        raise problem("gone", f"this calendar has stopped: {fault}")
    with runtime.reading() as plan:
        # By ids: numbers are others once something has left the Plan.
        ids = ids_of(plan.table, plan.table.select(range(len(plan.table)), row.tenant))
        grid = plan.grid
    oldest = grid.floor(max(0, runtime.now_ms() - _KEPT_MS))
    shown: list[Reservation] = []
    while ids and len(shown) < _MOST_SHOWN:  # the newest first
        chosen, ids = ids[-_READ:], ids[:-_READ]
        with runtime.reading() as plan:
            found = [plan.reservation(id_) for id_ in reversed(chosen)]
        mine = [one for one in found if one is not None and one.tenant == row.tenant]
        shown += [one for one in mine if _is_recent(one, oldest)]
    return calendar_text(f"Agenda: {row.tenant}", reversed(shown[:_MOST_SHOWN]), grid)


def _audit_row(runtime: Runtime, row: FeedRow, kind: str) -> AuditRow:
    return AuditRow(present_actor(), runtime.clock_ms(), kind, row.id, row.tenant)


def _is_recent(one: Reservation, oldest: int) -> bool:
    return one.state is not State.REFUSED and any(end >= oldest for _, end, _ in spans_of(one))


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _fault(runtime: Runtime, row: FeedRow) -> str | None:
    return runtime.token_book.maker_fault(row.maker, row.tenant, runtime.clock_ms())


def _json_of(runtime: Runtime, row: FeedRow) -> dict[str, Any]:
    created, stopped = rfc3339_text(instant_of(row.created_ms)), _fault(runtime, row)
    return {"id": row.id, "tenant": row.tenant, "created_at": created, "stopped": stopped}
