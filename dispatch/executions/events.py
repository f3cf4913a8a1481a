"""Events of a backend, as the execution table takes them in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    """What happened to a component or a machine."""

    STARTED = "started"  # the component runs
    STOPPED = "stopped"  # it was stopped, as asked
    EXITED = "exited"  # it ended by itself
    FAILED = "failed"  # it, or its start, failed
    LOST = "lost"  # it is gone by no fault of its own
    VOID = "void"  # a run that was stopped counts only until then; a later one continues
    MACHINE_LOST = "machine_lost"  # with all that ran there, each of which has failed
    MACHINE_BACK = "machine_back"


@dataclass(frozen=True, slots=True)
class BackendEvent:
    """One event; the component's fields are empty if it is about a machine."""

    kind: EventKind
    at_ms: int
    machine: str
    execution: str = ""
    component: str = ""
    index: int = 0
    detail: str = ""
