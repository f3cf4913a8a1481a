"""The interface of every backend: what runs components on machines, and all that it must do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dispatch.executions.assignment import Delta, VirtualAssignment
from dispatch.executions.events import BackendEvent
from dispatch.executions.execution import Execution
from dispatch.executions.table import ExecutionTable


@dataclass(frozen=True, slots=True)
class NotDone:
    """A delta that a backend did not carry out, and why; it has changed nothing.

    Attributes
    ----------
    retry
        Whether it is requested again at the next tick, since the reason says nothing of the
        component: no one was there to carry it out, say.
    """

    delta: Delta
    reason: str
    retry: bool = False


class MachineReport(NamedTuple):
    """Which machines can be used.

    Attributes
    ----------
    lost
        Those that take no work, and since when, in ms from the Plan's origin.
    live
        Those that take work. Of a machine that is in neither nothing is known yet.
    """

    lost: Mapping[str, int]
    live: frozenset[str]


class Backend(Protocol):
    """Starts and stops components and reports the outcome of them."""

    def resume(self, table: ExecutionTable, execution: Execution) -> None:
        """Let an execution continue that ran under a leader before this one, as it runs here."""
        ...

    def set_machines(self, machines: Iterable[str], at_ms: int) -> None:
        """Follow a cluster that is described again; nothing runs on machines that are gone."""
        ...

    def machines(self) -> MachineReport | None:
        """Return which machines can be used; None if the Plan is right about them by itself."""
        ...

    def welcome_back(self) -> None:
        """Use the machines again that were lost and are back: the Plan has them again."""
        ...

    @property
    def is_silent(self) -> bool:
        """Whether it is not known what runs: nothing is decided from what is not there."""
        ...

    def state(self) -> VirtualAssignment:
        """What is on machines now, starting components included."""
        ...

    def apply(self, deltas: Sequence[Delta], at_ms: int) -> tuple[NotDone, ...]:
        """Carry deltas out in order; what cannot be done is returned, the rest is done."""
        ...

    def events(self, until_ms: int) -> tuple[BackendEvent, ...]:
        """Return what happened up to an instant and was not reported before, in order of time."""
        ...
