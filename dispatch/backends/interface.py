"""The interface of every backend: what runs components on machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dispatch.executions.assignment import Delta, VirtualAssignment
from dispatch.executions.events import BackendEvent


@dataclass(frozen=True, slots=True)
class NotDone:
    """A delta that a backend did not carry out, and why; it has changed nothing.

    Attributes
    ----------
    retry
        Whether it is asked for again at the next tick, since the reason says nothing of the
        component: nobody was there to carry it out, say.
    """

    delta: Delta
    reason: str
    retry: bool = False


class Backend(Protocol):
    """Starts and stops components and reports what becomes of them."""

    def state(self) -> VirtualAssignment:
        """What is on machines now, starting components included."""
        ...

    def apply(self, deltas: Sequence[Delta], at_ms: int) -> tuple[NotDone, ...]:
        """Carry deltas out in order; what cannot be done is returned, the rest is done."""
        ...

    def events(self, until_ms: int) -> tuple[BackendEvent, ...]:
        """Return what happened up to an instant and was not reported before, in order of time."""
        ...
