"""The interface of backends, which run components on machines."""

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
    """A delta that a backend did not carry out, with the reason; it has changed nothing.

    Attributes
    ----------
    retry
        Whether it is requested again at the next tick, because the reason is not the component: the
        backend did not answer, for example.
    """

    delta: Delta
    reason: str
    retry: bool = False


class MachineReport(NamedTuple):
    """Availability of machines.

    Attributes
    ----------
    lost
        Machines that take no work, and since when, in ms from the Plan's origin.
    live
        Machines that take work. The state of a machine in neither is not known yet.
    """

    lost: Mapping[str, int]
    live: frozenset[str]


class Backend(Protocol):
    """Starts and stops components and reports their events."""

    def resume(self, table: ExecutionTable, execution: Execution) -> None:
        """Restore an execution that ran under an earlier leader, from its running components."""
        ...

    def set_machines(self, machines: Iterable[str], at_ms: int) -> None:
        """Follow a changed cluster description; nothing runs on removed machines."""
        ...

    def machines(self) -> MachineReport | None:
        """Return the availability of machines; None to rely on the Plan's outages."""
        ...

    def welcome_back(self) -> None:
        """Use recovered machines again, after the Plan has made them available."""
        ...

    @property
    def is_silent(self) -> bool:
        """Whether the running components are unknown, so that nothing follows from missing ones."""
        ...

    def state(self) -> VirtualAssignment:
        """Return the components on machines now, including starting ones."""
        ...

    def apply(self, deltas: Sequence[Delta], at_ms: int) -> tuple[NotDone, ...]:
        """Carry out deltas in order; return those that failed."""
        ...

    def events(self, until_ms: int) -> tuple[BackendEvent, ...]:
        """Return the unreported events up to an instant, in order of time."""
        ...
