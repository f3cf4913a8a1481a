"""The objective: reject cost, churn, falls and cost of steps, weighted or lexicographic."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from planner.cluster.cluster import Cluster
from planner.metrics import count_falls
from planner.replanning.commitment import Commitment
from planner.replanning.draft_plan import work_moved
from planner.reservations.reservation import Holding
from planner.reservations.state import State
from planner.value import PriceList, value_asked


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the parts of a score; parts are shares, so weights have the same meaning anywhere.

    Attributes
    ----------
    reject
        Share of the requested value: 1 means that everything is refused.
    churn
        Share of the work held before: 1 means that all of it moved.
    falls
        Ratio to the falls at the start: 1 means as many as before.
    cost
        Ratio to the price of the work at the start: 1 means as expensive as before.
    """

    reject: float = 1000.0
    churn: float = 1.0
    falls: float = 0.5
    cost: float = 0.5

    def __post_init__(self) -> None:
        """Check the weights.

        Raises
        ------
        ValueError
            If a weight is negative or not finite.
        """
        for name in ("reject", "churn", "falls", "cost"):
            weight = getattr(self, name)
            if not math.isfinite(weight) or weight < 0:
                raise ValueError(f"the weight of {name} is 0 or more, not {weight}")


@dataclass(frozen=True, slots=True)
class PlanCost:
    """Cost of a draft of the Plan, in the units of the metrics.

    Attributes
    ----------
    rejected
        Value of requests that are not placed.
    churn
        Work moved from its promised place (`work_moved`), in steps of the whole cluster.
    falls
        Bundles dropped from one step to the next, including the end of each atom.
    cost
        Sum over steps of work x price factor, in steps of the whole cluster.
    """

    rejected: float = 0.0
    churn: float = 0.0
    falls: float = 0.0
    cost: float = 0.0

    def __add__(self, other: PlanCost) -> PlanCost:
        return PlanCost(
            self.rejected + other.rejected,
            self.churn + other.churn,
            self.falls + other.falls,
            self.cost + other.cost,
        )

    def __sub__(self, other: PlanCost) -> PlanCost:
        return self + PlanCost(-other.rejected, -other.churn, -other.falls, -other.cost)

    def to_json(self) -> dict[str, float]:
        """Return plain JSON."""
        return {
            "rejected": round(self.rejected, 6),
            "churn": round(self.churn, 6),
            "falls": round(self.falls, 6),
            "cost": round(self.cost, 6),
        }


@dataclass(frozen=True, slots=True)
class Objective:
    """Combines the parts of a cost into a score; less is better.

    Attributes
    ----------
    lexicographic
        Compare reject cost first, then churn, falls, cost, and ignore the weights.
    """

    weights: Weights = field(default_factory=Weights)
    lexicographic: bool = False

    def score(self, cost: PlanCost, scale: CostScale) -> tuple[float, ...]:
        """Return the score, comparable with others of the same plan."""
        shares = (
            cost.rejected / scale.value,
            cost.churn / scale.work,
            cost.falls / scale.falls,
            cost.cost / scale.price,
        )
        rounded = tuple(round(share, 9) for share in shares)
        if self.lexicographic:
            return rounded
        w = self.weights
        factors = (w.reject, w.churn, w.falls, w.cost)
        total = sum(factor * share for factor, share in zip(factors, rounded, strict=True))
        return (round(total, 9),)

    def to_json(self) -> dict[str, Any]:
        """Return the objective as reported with a result."""
        if self.lexicographic:
            return {"order": ["reject", "churn", "falls", "cost"]}
        w = self.weights
        parts = {"reject": w.reject, "churn": w.churn, "falls": w.falls, "cost": w.cost}
        return {"weights": parts}


@dataclass(frozen=True, slots=True)
class CostScale:
    """The reference amounts for the parts of a cost.

    Attributes
    ----------
    value
        Value of all requests.
    work, falls, price
        Totals of all allocations at the start.
    """

    value: float = 1.0
    work: float = 1.0
    falls: float = 1.0
    price: float = 1.0


class CostModel:
    """Computes the cost of commitments at their current places.

    Attributes
    ----------
    reference
        Resources that values refer to (`Cluster.reference`).
    """

    def __init__(self, cluster: Cluster, prices: PriceList, now: int) -> None:
        self.reference = cluster.reference
        self._nominal = cluster.nominal
        self._prices = prices
        self._now = now
        self._requested: dict[int, float] = {}

    def requested_value(self, commitment: Commitment) -> float:
        """Return a commitment's maximum value: its value at a preference of 1."""
        known = self._requested.get(commitment.number)
        if known is None:
            request = commitment.request
            known = commitment.value
            if request is not None and request.graph.options:
                known = max(known, value_asked(request, self.reference))
            self._requested[commitment.number] = known
        return known

    def cost_of(self, commitment: Commitment, held: Holding | None, value: float) -> PlanCost:
        """Return the cost of a commitment with allocation `held` (None: waiting) and `value`."""
        rejected = max(0.0, self.requested_value(commitment) - value)
        if held is None:
            return PlanCost(rejected)
        new = commitment.state in (State.REFUSED, State.DEGRADED)
        churn = 0.0 if new else work_moved(commitment.before, held, self._now, self._nominal)
        rows = [rows for atom in held.atoms for _, rows in atom.occurrences() if len(rows)]
        return PlanCost(rejected, churn, float(count_falls(rows)[0]), self.price(held))

    def price(self, held: Holding) -> float:
        """Return work x price factor over all steps."""
        rows = ((atom.bundle, rows) for atom in held.atoms for _, rows in atom.occurrences())
        return self._prices.cost(rows, self._nominal)

    def scale_of(self, commitments: Iterable[Commitment]) -> CostScale:
        """Return the reference amounts for these commitments at the start."""
        value = work = dropped = price = 0.0
        nothing = Holding((), 0, 0)
        for one in commitments:
            value += self.requested_value(one)
            work += work_moved(nothing, one.before, self._now, self._nominal)
            rows = [rows for atom in one.before.atoms for _, rows in atom.occurrences()]
            dropped += count_falls([held for held in rows if len(held)])[0]
            price += self.price(one.before)
        return CostScale(value or 1.0, work or 1.0, dropped or 1.0, price or 1.0)
