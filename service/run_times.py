"""How long the in-memory backend lets components run."""

from __future__ import annotations

from collections.abc import Callable

from dispatch.application import Kind
from dispatch.assignment import Delta
from dispatch.execution_table import ExecutionTable


def run_time_of(table: ExecutionTable) -> Callable[[Delta], int | None]:
    """Return how long the in-memory backend lets a component run: cores of batch, their size."""

    def run_ms(delta: Delta) -> int | None:
        execution = table.get(delta.execution)
        if execution is None or execution.application.kind is not Kind.BATCH:
            return None
        core = any(
            part.component.core and part.component.name == delta.component
            for part in execution.parts
        )
        return execution.application.size_ms if core else None

    return run_ms
