"""The table of all routes: what the app serves and OpenAPI describes."""

from __future__ import annotations

from typing import Final

from service.api.description import description_routes
from service.api.route import Route
from service.api.views import (
    applications,
    assignments,
    audit,
    cluster,
    comparisons,
    diagnostics,
    dispatch_policy,
    executors,
    health,
    holds,
    machines,
    offers,
    optimizations,
    outages,
    plan,
    plan_columns,
    plan_export,
    rdl,
    reservations,
    tokens,
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
    *cluster.ROUTES,
    *outages.ROUTES,
    *dispatch_policy.ROUTES,
    *optimizations.ROUTES,
    *applications.ROUTES,
    *assignments.ROUTES,
    *executors.ROUTES,
    *tokens.ROUTES,
    *audit.ROUTES,
    *yarn.ROUTES,
    *health.ROUTES,
    *diagnostics.ROUTES,
)

ROUTES: Final = (*_CALLS, *description_routes(_CALLS))
