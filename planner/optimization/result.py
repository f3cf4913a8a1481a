"""The input, progress and result of an optimisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from planner.agent import Limits
from planner.optimization.objective import PlanCost
from planner.optimization.pins import PinConflict
from planner.placement import Code
from planner.plan.records.changes import Admit, Change, Update
from planner.value import relative_gap


@dataclass(frozen=True, slots=True)
class OptimizeScope:
    """The commitments that may move.

    Attributes
    ----------
    frozen_until
        Rows before this step do not move.
    pins
        Ids of reservations that do not change at all.
    admit_refused
        Whether refused requests may be admitted.
    only
        Ids of the reservations that may move and the requests that may be admitted; None: all.
    """

    frozen_until: int = 0
    pins: tuple[str, ...] = ()
    admit_refused: bool = False
    only: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class OptimizeProgress:
    """Progress of an optimisation.

    Attributes
    ----------
    value, bound
        Value of the best plan so far, and a bound on the value of any plan.
    source
        The source of the best plan: the original plan, a solver or the search.
    """

    value: float
    bound: float
    source: str
    elapsed_s: float

    @property
    def gap(self) -> float:
        """(bound - value) / bound; 0 if no more value is possible."""
        return relative_gap(self.value, self.bound)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A degraded reservation or refused request that has no place in the better plan.

    Attributes
    ----------
    code
        ``time_limit`` if the search ended before it found a possible place; else the code of the
        refusal.
    """

    id: str
    code: Code
    detail: str

    def to_json(self) -> dict[str, str]:
        """Return plain JSON."""
        return {"id": self.id, "code": self.code.value, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Optimized:
    """Result of an optimisation.

    Attributes
    ----------
    changes
        For one joint commit on `based_on`; empty if nothing better was found.
    before, after
        Costs before and after, the parts of the score.
    value, bound
        Value after the changes, and a bound on the value of any plan, over commitments that may
        move or be admitted and those with a current allocation; finished and cancelled ones are not
        included.
    status
        ``optimal`` if all requests are placed or the bound is reached and no other cost remains,
        ``feasible``, or ``stopped``.
    conflict
        Pins that conflict; then no search was made.
    left_out
        Waiting commitments that got no place, in the order of the Plan: degraded reservations, and
        refused requests if they may be admitted.
    held_work
        Work allocated at the start, in steps of the whole cluster: the reference of churn.
    machine_loss
        Fraction of the value found by the search that does not fit the machines; None if all fits.
        The bound applies to totals.
    """

    changes: tuple[Change, ...] = ()
    based_on: int = 0
    before: PlanCost = field(default_factory=PlanCost)
    after: PlanCost = field(default_factory=PlanCost)
    value: float = 0.0
    bound: float = 0.0
    status: str = "feasible"
    source: str = "plan"
    trials: int = 0
    conflict: PinConflict | None = None
    left_out: tuple[LeftOut, ...] = ()
    machine_loss: float | None = None
    held_work: float = 0.0

    @property
    def gap_value(self) -> float:
        """Maximum additional value of a better plan."""
        return self.bound - self.value

    @property
    def gap(self) -> float:
        """(bound - value) / bound."""
        return relative_gap(self.value, self.bound)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON; changes are reported as a diff of plans, not here."""
        lost = None if self.machine_loss is None else round(self.machine_loss, 6)
        return {
            "status": self.status,
            "value": round(self.value, 6),
            "bound": round(self.bound, 6),
            "gap": round(self.gap, 6),
            "source": self.source,
            "trials": self.trials,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "held_work": round(self.held_work, 6),
            "moved": sum(isinstance(one, Update) for one in self.changes),
            "admitted": sum(isinstance(one, Admit) for one in self.changes),
            "conflict": None if self.conflict is None else self.conflict.to_json(),
            "left_out": [one.to_json() for one in self.left_out],
            **({} if lost is None else {"machine_loss": lost}),
        }


@dataclass(frozen=True, slots=True)
class OptimizeOptions:
    """Options of the search.

    Attributes
    ----------
    limits
        `time_s`, `work` (trials), `seed`, `stop`.
    solver
        Name of the solver; None chooses one, ``""`` uses none.
    tell
        Called with every better plan.
    starts
        Lists of changes found by earlier runs, to continue from the best; changes that do not fit
        are left out.
    stall
        Consecutive trials without improvement after which the search ends; None: no limit.
    keep
        Called when a better plan is found, with a function that returns its changes.
    """

    limits: Limits = field(default_factory=Limits)
    solver: str | None = None
    tell: Callable[[OptimizeProgress], None] | None = None
    starts: tuple[tuple[Change, ...], ...] = ()
    stall: int | None = None
    keep: Callable[[Callable[[], list[Change]]], None] | None = None
