"""The table of all routes: what the app serves and OpenAPI describes."""

from __future__ import annotations

from typing import Final

from service.api.description import description_routes
from service.api.route import Route
from service.api.views import (
    applications,
    assignments,
    cluster,
    diagnostics,
    dispatch_policy,
    executors,
    health,
    offers,
    optimizations,
    outages,
    plan,
    rdl,
    reservations,
    tokens,
    yarn,
)

_CALLS: Final[tuple[Route, ...]] = (
    *rdl.ROUTES,
    *reservations.ROUTES,
    *offers.ROUTES,
    *plan.ROUTES,
    *cluster.ROUTES,
    *outages.ROUTES,
    *dispatch_policy.ROUTES,
    *optimizations.ROUTES,
    *applications.ROUTES,
    *assignments.ROUTES,
    *yarn.ROUTES,
    *executors.ROUTES,
    *tokens.ROUTES,
    *health.ROUTES,
    *diagnostics.ROUTES,
)

ROUTES: Final = (*_CALLS, *description_routes(_CALLS))
