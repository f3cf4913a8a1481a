"""What an expression is compiled against, apart from itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from rdl.limits import DEFAULT_LIMITS, SourceLimits
from rdl.resources import Resources
from rdl.time_grid import TimeGrid


@dataclass(frozen=True, slots=True)
class MachineShape:
    """One kind of machine: what a bundle must fit into, the labels and domains, and how many.

    Attributes
    ----------
    count
        Machines of the kind.
    domains
        (domain, value) that hold for all of them, such as ``("rack", "r1")``, sorted.
    """

    name: str
    resources: Resources
    labels: frozenset[str] = frozenset()
    count: int = 1
    domains: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CompileContext:
    """The grid, the submission and what the cluster can hold.

    Attributes
    ----------
    grid
        Carries the horizon: what lies past it cannot be planned.
    submitted_ms
        Instant of submission, ms from the origin; nothing is placed before it.
    machines
        Kinds of machines; empty = not known, and no bundle is too large.
    max_period_ms
        Longest period up to which an endless recurrence must divide it.
    exact_work
        Refuse a work that cannot be reached in the client's own units, instead of taking the next.
    limits
        Bounds of one request.
    calendars
        Dates by the name of a calendar that requests may leave out, ascending.
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
        """What `first` is, in words that follow "before"."""
        return "the submission" if self.submitted_ms >= 0 else "the plan begins"
