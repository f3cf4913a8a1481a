"""What an optimisation is given, what it tells on the way, and what it answers."""

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
    """What may move.

    Attributes
    ----------
    frozen_until
        Step before which no row moves.
    pins
        Ids of reservations that stay wholly as they are.
    admit_refused
        Whether refused requests may come in.
    only
        Ids of the reservations that may move and the requests that may come in; None: all.
    """

    frozen_until: int = 0
    pins: tuple[str, ...] = ()
    admit_refused: bool = False
    only: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class OptimizeProgress:
    """How far an optimisation is.

    Attributes
    ----------
    value, bound
        Value held now, and the most that any plan can hold.
    source
        What found it: the plan itself, a solver, the search.
    """

    value: float
    bound: float
    source: str
    elapsed_s: float

    @property
    def gap(self) -> float:
        """(bound - value) / bound; 0 if nothing more can be held."""
        return relative_gap(self.value, self.bound)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A degraded reservation or refused request that has no place in the better plan.

    Attributes
    ----------
    code
        ``time_limit`` where a place may be there and the search ended before it was found; of
        others, what refuses them.
    """

    id: str
    code: Code
    detail: str

    def to_json(self) -> dict[str, str]:
        """Return plain JSON."""
        return {"id": self.id, "code": self.code.value, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Optimized:
    """What came of it.

    Attributes
    ----------
    changes
        For one joint commit on `based_on`; empty if nothing better was found.
    before, after
        Parts of the score.
    value, bound
        Value held after, and the most that any plan can hold, by those who may move or come in and
        by those who still hold something: what is over or was cancelled is not among them.
    status
        ``optimal`` where all that is asked is held or the bound is reached and nothing else counts
        against it, ``feasible``, or ``stopped``.
    conflict
        Pins that cannot all stay; then nothing was tried.
    left_out
        What waited for a place and has none, in the order of the Plan: degraded reservations, and
        refused requests where they may come in.
    held_work
        Work held at the start, in steps of the whole cluster: what churn is a part of.
    machine_loss
        Part of the value that the search found and machines do not hold; None if they hold all.
        The bound is one of totals.
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
        """Most value that a still better plan could hold alongside this."""
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
    """How it is sought.

    Attributes
    ----------
    limits
        `time_s`, `work` (trials), `seed`, `stop`.
    solver
        Name of an agent that solves; None chooses, ``""`` is none.
    tell
        Informed of every better plan.
    starts
        Lists of changes that earlier runs had found, to continue from the best; what does not fit
        is left out.
    stall
        Trials in a row that find nothing better, after which the search ends; None: no limit.
    keep
        Called where a better plan was found, with a function that returns its changes.
    """

    limits: Limits = field(default_factory=Limits)
    solver: str | None = None
    tell: Callable[[OptimizeProgress], None] | None = None
    starts: tuple[tuple[Change, ...], ...] = ()
    stall: int | None = None
    keep: Callable[[Callable[[], list[Change]]], None] | None = None
