"""What a promise of the Plan is good for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class PromiseLevel(StrEnum):
    """How much of the machines a reservation is promised; the last is the strongest."""

    POOLED = "pooled"
    """Totals only: machines may be too scattered to hold all bundles."""

    PLACED = "placed"
    """Every bundle has a machine for as long as it is held."""


def asked_level(entry: Mapping[str, Any]) -> PromiseLevel | None:
    """Return the level under ``promise`` of an entry of a file or record; None if none is."""
    word = entry.get("promise")
    return None if word is None else PromiseLevel(word)
