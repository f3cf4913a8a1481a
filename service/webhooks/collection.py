"""Events for each webhook: events of the log, and announcements by the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from planner.plan.plan import Plan
from planner.reservations.state import STATE_NUMBERS, State
from service.events import RESERVATION_KINDS, EventPosition, PlanEvent, RecentEvents
from service.store.webhooks import DeliveryRow, WebhookRow

#: Announcements by the clock: a reservation begins soon; one has begun but its work does not run
#: yet; the work of one has had fewer machines than its entitlement for a while.
STARTING_SOON: Final = "starting_soon"
STARTED_LATE: Final = "started_late"
AT_RISK: Final = "at_risk"

#: Events that were deleted before they could be reported; and test messages.
MISSED: Final = "missed"
TEST: Final = "test"

WEBHOOK_KINDS: Final = (*RESERVATION_KINDS, STARTING_SOON, STARTED_LATE, AT_RISK)

#: Kinds reported by default.
USUAL_KINDS: Final = (
    "degraded", "restored", "moved", STARTING_SOON, STARTED_LATE, "stage_late", AT_RISK, "ended",
    "failed",
)  # fmt: skip

#: How long work may take to begin before it is late; it is reported until `_NEWS_MS`.
LATE_MS: Final = 30_000

#: How long work has lacked machines when it is at risk.
RISK_MS: Final = 300_000
_NEWS_MS: Final = 3_600_000

#: Most events processed for a webhook at a time.
_MOST: Final = 2_000


class EventCollector:
    """Finds the events to deliver.

    Parameters
    ----------
    recent
        The events of the log.
    calendar
        Returns ms from the origin as RFC 3339.
    """

    def __init__(self, recent: RecentEvents, calendar: Callable[[int], str]) -> None:
        self._recent = recent
        self._calendar = calendar

    def of_log(self, hook: WebhookRow, clock_ms: int) -> tuple[list[DeliveryRow], EventPosition]:
        """Return the deliveries for a webhook of unprocessed events, and the new position."""
        position = EventPosition(hook.version, hook.number)
        events = self._recent.read(position, _MOST)
        if events is None:
            newest = self._recent.newest
            body = {"id": f"missed-{newest}", "kind": MISSED, "version": newest.version}
            return [_row(hook, body, clock_ms)], newest
        rows = [
            _row(hook, self._with_calendar(event.to_json(), event.at_ms), clock_ms)
            for event in events
            if _wants(hook, event)
        ]
        return rows, events[-1].position if events else position

    def of_clock(
        self, hook: WebhookRow, plan: Plan, below: Mapping[str, int], now_ms: int, clock_ms: int
    ) -> list[DeliveryRow]:
        """Return announcements by the clock, with stable ids, so that each is stored once.

        Parameters
        ----------
        below
            Reservations whose work should run but does not, and since when, in ms from the origin.
        now_ms
            Now, in ms from the origin.
        """
        kinds = hook.kinds.split(",")
        found: list[dict[str, Any]] = []
        if STARTING_SOON in kinds:
            found += self._soon(hook, plan, now_ms)
        found += (one for one in self._short(plan, below, now_ms) if one["kind"] in kinds)
        return [
            _row(hook, body, clock_ms)
            for body in found
            if hook.tenant in (None, body["tenant"])
            and hook.reservation in (None, body["reservation"])
        ]

    def _soon(self, hook: WebhookRow, plan: Plan, now_ms: int) -> Iterator[dict[str, Any]]:
        meta = plan.table.meta
        until = plan.grid.floor(now_ms + hook.lead_ms)
        near = (meta["state"] == STATE_NUMBERS[State.ACCEPTED]) & (meta["begin"] <= until)
        for number in np.flatnonzero(near & (meta["begin"] > plan.now)).tolist():
            begin_ms = plan.grid.ms(int(meta[number]["begin"]))
            yield self._body_at(plan, number, STARTING_SOON, begin_ms)

    def _short(self, plan: Plan, below: Mapping[str, int], now_ms: int) -> Iterator[dict[str, Any]]:
        """Yield announcements of missing machines: late in the first hour, or at risk."""
        for id_, since_ms in below.items():
            number = plan.table.number_of(id_)
            if number is None or plan.table.state(number) is not State.ACTIVE:
                continue
            begin_ms = plan.grid.ms(int(plan.table.meta[number]["begin"]))
            if LATE_MS <= now_ms - begin_ms <= _NEWS_MS:
                yield self._body_at(plan, number, STARTED_LATE, begin_ms)
            if now_ms - since_ms >= RISK_MS:
                yield self._body_at(plan, number, AT_RISK, since_ms)

    def _body_at(self, plan: Plan, number: int, kind: str, begin_ms: int) -> dict[str, Any]:
        id_ = plan.table.id_of(number)
        body = {
            "id": f"{kind}-{id_}-{begin_ms // 1000}",
            "kind": kind,
            "at": begin_ms / 1000,
            "reservation": id_,
            "tenant": plan.table.scope(number)[0],
        }
        return self._with_calendar(body, begin_ms)

    def _with_calendar(self, body: dict[str, Any], at_ms: int) -> dict[str, Any]:
        return body | {"at_at": self._calendar(at_ms)}


def trial_delivery(hook: WebhookRow, id_: str, clock_ms: int) -> DeliveryRow:
    """Return a test delivery."""
    return _row(hook, {"id": id_, "kind": TEST, "webhook": hook.id}, clock_ms)


def _row(hook: WebhookRow, body: dict[str, Any], clock_ms: int) -> DeliveryRow:
    return DeliveryRow(hook.id, body["id"], msgspec.json.encode(body), clock_ms)


def _wants(hook: WebhookRow, event: PlanEvent) -> bool:
    return (
        event.reservation is not None
        and event.kind in hook.kinds.split(",")
        and hook.tenant in (None, event.tenant)
        and hook.reservation in (None, event.reservation)
    )
