"""The table of all routes: what the app serves and OpenAPI describes."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Final

import service.resources
from service.http.route import Route
from service.http.views import pages, yarn
from service.http.views.plan import bound as plan_bound
from service.http.views.plan import changes as plan_changes
from service.http.views.plan import columns as plan_columns
from service.http.views.plan import export as plan_export
from service.http.views.plan import series as plan
from service.http.views.reservations import holds, insight, offers, rdl, reservations
from service.resources.description import description_routes

_CALLS: Final[tuple[Route, ...]] = (
    *rdl.ROUTES,
    *reservations.ROUTES,
    *offers.ROUTES,
    *holds.ROUTES,
    *plan.ROUTES,
    *plan_columns.ROUTES,
    *plan_bound.ROUTES,
    *plan_export.ROUTES,
    *plan_changes.ROUTES,
    *insight.ROUTES,
    *yarn.ROUTES,
    *pages.ROUTES,
)


def _resources() -> list[Route]:
    """Return the calls of every file of this package that has some, by the name of the file."""
    found: list[Route] = []
    for one in pkgutil.iter_modules(service.resources.__path__):
        if one.name not in ("table", "description"):
            found += import_module(f"service.resources.{one.name}").calls
    return found


_ALL: Final = (*_resources(), *_CALLS)

ROUTES: Final = (*_ALL, *description_routes(_ALL))
