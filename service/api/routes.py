"""The table of all routes: what the app serves and OpenAPI describes."""

from __future__ import annotations

from typing import Final

from service.api import (
    applications,
    assignments,
    cluster,
    offers,
    operations,
    optimizations,
    outages,
    plan,
    rdl,
    reservations,
)
from service.api.call import Route

ROUTES: Final[tuple[Route, ...]] = (
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
