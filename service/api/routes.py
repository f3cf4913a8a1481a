"""The table of all routes: what the app serves and OpenAPI describes."""

from __future__ import annotations

from typing import Final

from service.api.openapi.description import description_routes
from service.api.route import Route
from service.api.views import diagnostics, health, pages, status, yarn
from service.api.views.access import audit, caller, tokens
from service.api.views.applications import applications, assignments, executors
from service.api.views.cluster import cluster, dispatch_policy, machines, outages
from service.api.views.events import events, webhooks
from service.api.views.jobs import comparisons, optimizations
from service.api.views.plan import bound as plan_bound
from service.api.views.plan import changes as plan_changes
from service.api.views.plan import columns as plan_columns
from service.api.views.plan import export as plan_export
from service.api.views.plan import series as plan
from service.api.views.reservations import holds, insight, offers, rdl, reservations

_CALLS: Final[tuple[Route, ...]] = (
    *rdl.ROUTES,
    *reservations.ROUTES,
    *offers.ROUTES,
    *holds.ROUTES,
    *plan.ROUTES,
    *plan_columns.ROUTES,
    *plan_bound.ROUTES,
    *plan_export.ROUTES,
    *machines.ROUTES,
    *comparisons.ROUTES,
    *plan_changes.ROUTES,
    *cluster.ROUTES,
    *outages.ROUTES,
    *dispatch_policy.ROUTES,
    *events.ROUTES,
    *webhooks.ROUTES,
    *optimizations.ROUTES,
    *applications.ROUTES,
    *assignments.ROUTES,
    *insight.ROUTES,
    *executors.ROUTES,
    *caller.ROUTES,
    *tokens.ROUTES,
    *audit.ROUTES,
    *yarn.ROUTES,
    *health.ROUTES,
    *diagnostics.ROUTES,
    *status.ROUTES,
    *pages.ROUTES,
)

ROUTES: Final = (*_CALLS, *description_routes(_CALLS))
