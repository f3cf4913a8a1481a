"""The table of all routes: what the app serves and OpenAPI describes."""

from __future__ import annotations

from typing import Final

from service.api.description import description_routes
from service.api.route import Route
from service.api.views import (
    applications,
    assignments,
    audit,
    calendar_feeds,
    cluster,
    comparisons,
    diagnostics,
    dispatch_policy,
    events,
    executors,
    health,
    holds,
    insight,
    machines,
    offers,
    optimizations,
    outages,
    plan,
    plan_changes,
    plan_columns,
    plan_export,
    rdl,
    reservations,
    tokens,
    webhooks,
    yarn,
)

_CALLS: Final[tuple[Route, ...]] = (
    *rdl.ROUTES,
    *reservations.ROUTES,
    *offers.ROUTES,
    *holds.ROUTES,
    *plan.ROUTES,
    *plan_columns.ROUTES,
    *plan_export.ROUTES,
    *machines.ROUTES,
    *comparisons.ROUTES,
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
    *insight.ROUTES,
    *executors.ROUTES,
    *tokens.ROUTES,
    *audit.ROUTES,
    *yarn.ROUTES,
    *health.ROUTES,
    *diagnostics.ROUTES,
)

ROUTES: Final = (*_CALLS, *description_routes(_CALLS))
