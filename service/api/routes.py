"""The table of all routes: what the app serves and OpenAPI describes."""

from __future__ import annotations

from typing import Final

from service.api.description import description_routes
from service.api.route import Route
from service.api.views import (
    applications,
    assignments,
    calendar_feeds,
    cluster,
    dispatch_policy,
    events,
    health,
    offers,
    optimizations,
    outages,
    plan,
    plan_changes,
    rdl,
    reservations,
    webhooks,
)

_CALLS: Final[tuple[Route, ...]] = (
    *rdl.ROUTES,
    *reservations.ROUTES,
    *offers.ROUTES,
    *plan.ROUTES,
    *plan_changes.ROUTES,
    *cluster.ROUTES,
    *outages.ROUTES,
    *dispatch_policy.ROUTES,
    *events.ROUTES,
    *webhooks.ROUTES,
    *calendar_feeds.ROUTES,
    *optimizations.ROUTES,
    *applications.ROUTES,
    *assignments.ROUTES,
    *health.ROUTES,
)

ROUTES: Final = (*_CALLS, *description_routes(_CALLS))
