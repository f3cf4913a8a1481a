"""Whose a request is that says it in no line, for commands that must not load a planner to know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestDefaults:
    """Whose a request is that says it in no line: one in RDL."""

    tenant: str | None = None
    queue: str | None = None
