"""What is sent back to take an offer up: the body of a request, whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

#: Fields of a refused request that the request of its offers keeps, where it has them.
_KEPT: Final = ("id", "tenant", "queue", "weight", "priority", "promise")


def with_requests(
    offers: Iterable[Mapping[str, Any]], asked: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return offers, each with the body for ``POST /v1/reservations`` that takes it up.

    Parameters
    ----------
    asked
        What was refused: its fields, as answers name them.
    """
    kept = {name: asked[name] for name in _KEPT if asked.get(name) is not None}
    return [{**one, "request": {**kept, "rdl": one["expression"]}} for one in offers]


def refusal_with_requests(refusal: Mapping[str, Any]) -> dict[str, Any]:
    """Return a refusal as files write it, its offers with their requests."""
    return {**refusal, "offers": with_requests(refusal["offers"], refusal)}
