"""The context in which an expression is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from rdl.limits import DEFAULT_LIMITS, SourceLimits
from rdl.resources import Resources
from rdl.time_grid import TimeGrid


@dataclass(frozen=True, slots=True)
class MachineShape:
    """One kind of machine: its resources, labels and domains, and the count.

    Attributes
    ----------
    count
        Number of machines of this kind.
    domains
        (domain, value) of all of them, such as ``("rack", "r1")``, sorted.
    """

    name: str
    resources: Resources
    labels: frozenset[str] = frozenset()
    count: int = 1
    domains: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CompileContext:
    """The grid, the submission and the machines of the cluster.

    Attributes
    ----------
    grid
        The grid; nothing can be planned beyond its horizon.
    submitted_ms
        Instant of submission, ms from the origin; nothing is placed before it.
    machines
        Kinds of machines; empty = unknown, then no bundle is too large.
    max_period_ms
        Upper bound of the period of an endless recurrence, which must divide it.
    exact_work
        Refuse an unreachable work in the client's own units, instead of rounding it up.
    limits
        Bounds of one request.
    calendars
        Dates by name of a calendar that requests may exclude, ascending.
    """

    grid: TimeGrid
    submitted_ms: int = 0
    machines: tuple[MachineShape, ...] = ()
    max_period_ms: int = 86_400_000
    exact_work: bool = False
    limits: SourceLimits = DEFAULT_LIMITS
    calendars: tuple[tuple[str, tuple[date, ...]], ...] = ()

    @property
    def submitted(self) -> int:
        """Step of the submission, rounded up."""
        return self.grid.ceil(self.submitted_ms)

    @property
    def first(self) -> int:
        """Step before which nothing is placed: the submission's, or the plan's if that is later."""
        return max(self.submitted, 0)

    @property
    def begin_words(self) -> str:
        """The words for `first` after "before"."""
        return "the submission" if self.submitted_ms >= 0 else "the plan begins"
