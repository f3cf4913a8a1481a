"""The table of all routes: what the app serves and OpenAPI describes."""

from __future__ import annotations

from typing import Final

from service.api.call import Route
from service.api.openapi import description
from service.api.views import (
    applications,
    assignments,
    cluster,
    offers,
    optimizations,
    outages,
    plan,
    rdl,
    reservations,
)
from service.api.views import health as operations

_CALLS: Final[tuple[Route, ...]] = (
    *rdl.ROUTES,
    *reservations.ROUTES,
    *offers.ROUTES,
    *plan.ROUTES,
    *cluster.ROUTES,
    *outages.ROUTES,
    *optimizations.ROUTES,
    *applications.ROUTES,
    *assignments.ROUTES,
    *operations.ROUTES,
)

ROUTES: Final = (*_CALLS, *description(_CALLS))
