"""Events of a backend for the execution table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    """A change of the state of a component or a machine."""

    STARTED = "started"  # the component runs
    STOPPED = "stopped"  # it was stopped on request
    EXITED = "exited"  # it ended on its own
    FAILED = "failed"  # it, or its start, failed
    LOST = "lost"  # it was lost through no fault of its own
    STUCK = "stuck"  # it could not begin on its machine, and may on another
    VOID = "void"  # a stopped run counts only until then; a later run continues
    MACHINE_LOST = "machine_lost"  # with all components there, each of which has failed
    MACHINE_BACK = "machine_back"


@dataclass(frozen=True, slots=True)
class BackendEvent:
    """One event; the component's fields are empty for an event about a machine."""

    kind: EventKind
    at_ms: int
    machine: str
    execution: str = ""
    component: str = ""
    index: int = 0
    detail: str = ""
