"""The table of all routes that the app serves and OpenAPI describes."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Final

import service.resources
from service.http.route import Route
from service.resources.description import description_routes

_NO_RESOURCES: Final = ("description", "table")


def _resources() -> list[Route]:
    """Return the calls of all modules of this package, by module name."""
    found: list[Route] = []
    for one in pkgutil.iter_modules(service.resources.__path__):
        if one.name not in _NO_RESOURCES:
            found += import_module(f"service.resources.{one.name}").calls
    return found


_CALLS: Final = tuple(_resources())

ROUTES: Final = (*_CALLS, *description_routes(_CALLS))
