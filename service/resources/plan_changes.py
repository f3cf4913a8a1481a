"""Changes of reservations since a version of the Plan, with which a page updates its chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from planner.placement import Code
from planner.plan.plan import Plan
from service.access.user import User
from service.events import CLUSTER, WHOLE, EventPosition, PlanEvent
from service.http.kinds import Word, integer
from service.http.kit import Calls, Count, OpenAnswer, doc
from service.ownership import own_filter
from service.resources.reservation_pages import refusal_to_json, with_times
from service.runtime import Runtime

#: The most reservations in one answer, and the most events that are read for them.
MOST_CHANGED: Final = 1_000
_MOST_EVENTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Which changes are reported: those that `user` may see, only of `tenant` if it is not None."""

    user: User
    tenant: str | None = None

    def takes(self, event: PlanEvent) -> bool:
        """Return whether an event of a reservation is reported."""
        return event.tenant is not None and self.is_of(event.tenant)

    def is_of(self, tenant: str) -> bool:
        """Return whether changes of a tenant are reported."""
        return self.tenant in (None, tenant) and self.user.acts_for(tenant)


class PlanChanges(OpenAnswer, kw_only=True):
    version: Count
    since: Count
    reset: Annotated[bool, doc("The changes are no longer known: read the Plan again.")]
    cluster: Annotated[bool, doc("Whether the cluster's description has changed.")] = False
    now: Annotated[float, doc("Seconds from the origin.")]
    reservations: list[dict[str, Any]] = msgspec.field(default_factory=list)
    removed: list[str] = msgspec.field(default_factory=list)


calls = Calls()


@calls.get(
    "/v1/plan/changes",
    "Each changed reservation in its present state. `reset`: the version is "
    "too old, or too much has changed; read the Plan again.",
    fails=(Code.MALFORMED,),
)
def get_plan_changes(
    runtime: Runtime,
    user: User,
    since: Annotated[int, integer(0, 10**15), doc("The version that the client has.")],
    tenant: Annotated[Word | None, doc("Only reservations of this tenant.")] = None,
) -> PlanChanges:
    """The reservations that have changed since a version of the Plan."""
    return changes_since(runtime, since, ChangeFilter(user, own_filter(user, tenant)))


def changes_since(runtime: Runtime, version: int, wanted: ChangeFilter) -> PlanChanges:
    """Return the changes after a version; `reset` if they are unknown or too many."""
    with runtime.reading() as plan:
        events = _events_after(runtime, plan, version)
        body = PlanChanges(
            version=plan.version,
            since=version,
            reset=events is None,
            now=plan.grid.seconds(plan.now),
        )
        if events is None:
            return body
        ids = {one.reservation: None for one in events if wanted.takes(one)}
        if len(ids) > MOST_CHANGED:
            body.reset = True
            return body
        shown, removed = [], []
        for id_ in ids:
            assert id_ is not None
            entry = _entry(plan, id_, wanted)
            if entry is None:
                removed.append(id_)
            else:
                shown.append(entry)
        grid = plan.grid
    body.reservations, body.removed = with_times(runtime, shown, grid), removed
    body.cluster = any(one.kind == CLUSTER for one in events)
    return body


def _events_after(runtime: Runtime, plan: Plan, version: int) -> Sequence[PlanEvent] | None:
    """Return the events after a version; None if they are no longer stored or too many."""
    if version > plan.version:
        return None
    events = runtime.recent.read(EventPosition(version, WHOLE), _MOST_EVENTS + 1)
    return None if events is None or len(events) > _MOST_EVENTS else events


def _entry(plan: Plan, id_: str, wanted: ChangeFilter) -> dict[str, Any] | None:
    """Return a reservation or refusal as in lists; None if it is no longer in the Plan.

    The id of a refusal or of a former reservation may be in use by another tenant.
    """
    reservation, refusal = plan.reservation(id_), plan.refusal(id_)
    if reservation is not None and wanted.is_of(reservation.tenant):
        return reservation.to_json(plan.grid)
    if refusal is not None and wanted.is_of(refusal.tenant):
        return refusal_to_json(refusal, plan.grid)
    return None
