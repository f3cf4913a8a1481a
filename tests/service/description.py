"""The description of the API, made once for all tests of a process: it takes half a second."""

from __future__ import annotations

from typing import Any, Final

from service.http.specification import document
from service.resources.table import ROUTES

DESCRIPTION: Final[dict[str, Any]] = document(ROUTES)
