"""Levels of the promises of a Plan."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class PromiseLevel(StrEnum):
    """The level of a promise; the last one is the strongest."""

    POOLED = "pooled"
    """Totals only: machines may be too scattered to hold all bundles."""

    PLACED = "placed"
    """Every bundle has a machine for its whole time."""


def asked_level(entry: Mapping[str, Any]) -> PromiseLevel | None:
    """Return the level in ``promise`` of an entry of a file or record; None if there is none."""
    word = entry.get("promise")
    return None if word is None else PromiseLevel(word)
