"""Offline optimisation: move reservations and admit refused requests, as a diff to apply.

A promise is never reduced: every reservation keeps all that it had, with the same expression. Rows
before `frozen_until` and pinned reservations do not move; current leases are kept. A solver bounds
the value and may find a plan; ruin and recreate does the rest. The result is a list of changes that
`Plan.prepare` checks again jointly: if the Plan has changed since, they are merged if they still
fit, else they conflict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from planner.adaptation.recurring import salvage
from planner.adaptation.relocation import relocations, starting_machines, without_slots
from planner.adaptation.repair import Repair, present_holders
from planner.agent import BoundError, Deadline
from planner.capacity.capacity_rows import CapacityRows
from planner.capacity.profile import FreeProfile
from planner.optimization.candidates import explain_left_out, waiting_commitments
from planner.optimization.feasible_part import feasible_part
from planner.optimization.movable_plan import Costed, MovablePlan
from planner.optimization.objective import CostModel, Objective, PlanCost
from planner.optimization.pins import PinConflict, conflicting_pins
from planner.optimization.result import (
    LeftOut,
    Optimized,
    OptimizeOptions,
    OptimizeProgress,
    OptimizeScope,
)
from planner.optimization.solver_step import SolverStep
from planner.placement import PlacementResult
from planner.plan.batch.admission import limit_refusal
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Degrade, Update
from planner.replanning.commitment import by_importance, commitment_of
from planner.replanning.draft_plan import DraftPlan, shortage_of
from planner.replanning.moves import CommitmentMoves
from planner.reservations.reservation import Holding
from planner.reservations.state import State
from planner.value import PriceList

#: Cause of updates in histories, and their agent's name.
OPTIMIZED: Final = "optimized"

#: Maximum number of commitments for a solver if none is named: with a time limit, and with only a
#: work limit.
_SOLVABLE: Final = 2_000
_SOLVABLE_BY_WORK: Final = 400

#: Fraction of a value that rounding may lose.
_SAME: Final = 1e-6

#: Rounds of the preceding repair if machines are short.
_REPAIRS: Final = 100

#: Trials if neither time nor work is limited.
_TRIALS: Final = 500


def optimize(
    plan: Plan,
    objective: Objective | None = None,
    scope: OptimizeScope | None = None,
    effort: OptimizeOptions | None = None,
) -> Optimized:
    """Return a better plan, or the pins that conflict.

    Raises
    ------
    KeyError
        If a pin is not a reservation with an allocation.
    """
    return Optimization(
        plan, objective or Objective(), scope or OptimizeScope(), effort or OptimizeOptions()
    ).run()


class Optimization:
    """One optimisation.

    Attributes
    ----------
    too_many
        Requests with a place in the best draft that cannot be committed, with the reason, by id.
    """

    def __init__(
        self, plan: Plan, objective: Objective, scope: OptimizeScope, effort: OptimizeOptions
    ) -> None:
        self.deadline = Deadline(effort.limits, _TRIALS)
        self.origin, self.objective, self.scope, self.effort = plan, objective, scope, effort
        self.plan = plan.copy()
        self.plan.advance_to(scope.frozen_until)
        table, only = self.plan.table, scope.only
        holders = present_holders(self.plan).tolist()
        if only is not None:
            holders = [number for number in holders if table.id_of(number) in only]
        self.standing = {
            one.id: one for one in (commitment_of(self.plan, number) for number in holders)
        }
        for id_ in scope.pins:
            if id_ not in self.standing:
                raise KeyError(id_)
        self.waiting = waiting_commitments(
            self.plan, admit_refused=scope.admit_refused, only=scope.only
        )
        pinned = set(scope.pins)
        kept = [one for one in self.standing.values() if one.state is not State.DEGRADED]
        self.movable = [one for one in kept if one.id not in pinned and one.request is not None]
        self.everything = [*kept, *self.waiting]
        self.trials = 0
        self._stalled, self._most = 0, 0.0
        self.requested = self.bound = self.pooled = 0.0
        self.too_many: dict[str, PlacementResult] = {}

    def run(self) -> Optimized:
        """Run the optimisation and return its result."""
        conflict = self._conflict()
        if conflict is not None:
            return Optimized(based_on=self.origin.version, conflict=conflict)
        draft = self._start()
        search = self._search(draft)
        self.requested = sum(search.cost_model.requested_value(one) for one in self.everything)
        self.bound = self.requested - search.fixed.rejected
        start = search.evaluate(draft, "plan")
        resumed = (self._resumed(search, start, found) for found in self.effort.starts)
        best = min((start, *resumed), key=lambda one: one.score)
        best = self._solve(search, best)
        if not self._is_proven(best):
            best, self.trials = search.search(
                best, self._is_over, self._tell, self.effort.limits.seed
            )
        return self._answer(search, start, self._within_counts(search, best))

    def _is_proven(self, best: Costed) -> bool:
        """Return whether the plan is optimal: maximum value without any move.

        Without moves, falls and cost are those of the original plan; only an objective that weighs
        them against churn could prefer another plan.
        """
        reached = self._value(best) >= self.bound * (1 - _SAME) and best.cost.churn == 0
        w = self.objective.weights
        return reached and (self.objective.lexicographic or not (w.falls or w.cost))

    def _start(self) -> DraftPlan:
        """Return a draft of the current Plan, repaired without the pins if machines are short."""
        draft = DraftPlan.of(self.plan, starting_machines(self.plan, self.waiting))
        repair = Repair(self.plan, draft, pinned=self._spared())
        if repair.hit:
            draft = repair.run(replace(self.effort.limits, time_s=None, work=_REPAIRS))
        for one in self.waiting:
            if one.number not in draft.moved:
                draft.lift(one)
        return draft

    def _spared(self) -> frozenset[int]:
        """Return the reservations that a repair does not touch even if machines are short.

        These are the pinned ones and, if only some may move, the others; all of them if no earlier
        run degraded any.
        """
        pinned = frozenset(self.standing[id_].number for id_ in self.scope.pins)
        if self.scope.only is None:
            return pinned
        holders = frozenset(present_holders(self.plan).tolist())
        found = (one for changes in self.effort.starts for one in changes)
        if not any(isinstance(one, Degrade) for one in found):
            return holders
        return pinned | holders - {one.number for one in self.standing.values()}

    def _resumed(self, search: MovablePlan, start: Costed, changes: Sequence[Change]) -> Costed:
        """Return an earlier run's result if all reservations keep their allocations.

        A reservation whose new place is in use stays or goes elsewhere; a request whose place is in
        use is placed again last.
        """
        found = {
            one.request.id if isinstance(one, Admit) else one.id: one.result
            for one in changes
            if isinstance(one, Admit | Update)
        }
        chosen = [one for one in by_importance(search.commitments) if one.id in found]
        chosen.sort(key=lambda one: one.number in start.draft.lifted)
        draft = start.draft.copy()
        for one in chosen:
            draft.lift(one)
        if not search.complete(draft, start.draft, [(one, found[one.id]) for one in chosen]):
            return start
        return _better(start, search.evaluate(draft, "search"))

    def _conflict(self) -> PinConflict | None:
        """Return the pins that do not fit the current machines and policies."""
        if not self.scope.pins and not shortage_of(self.plan.ledger).counts:
            return None
        empty = FreeProfile(CapacityRows(self.plan.cluster), self.plan.grid, self.plan.ledger.first)
        pins = [(self.standing[id_], self.standing[id_].before) for id_ in self.scope.pins]
        return conflicting_pins(self.plan, empty, pins)

    def _search(self, draft: DraftPlan) -> MovablePlan:
        plan = self.plan
        prices = PriceList(plan.cluster.price_factors(plan.grid))
        cost_model = CostModel(plan.cluster, prices, plan.now)
        movable = [*self.movable, *self.waiting]
        known = {one.number for one in movable}
        fixed = PlanCost()
        for one in self.everything:
            if one.number not in known:
                fixed += cost_model.cost_of(one, one.before, one.value)
        return MovablePlan(
            movable,
            self.objective,
            cost_model,
            cost_model.scale_of(self.everything),
            CommitmentMoves(plan, shortage_of(draft.ledger)),
            fixed,
        )

    def _is_over(self) -> bool:
        """Return whether to stop with the best plan so far; if not, count a trial."""
        over = self.deadline.is_over() or self._is_stalled()
        self.deadline.rounds += not over
        self._stalled += 1
        return over

    def _is_stalled(self) -> bool:
        """Return whether a search with a stall limit has stalled, or has reached the optimum."""
        if self.effort.stall is None:
            return False
        return self._stalled >= self.effort.stall or self._most >= self.bound * (1 - _SAME)

    def _tell(self, best: Costed) -> None:
        self._stalled, self._most = 0, self._value(best)
        if self.effort.tell is not None:
            elapsed_s = self.deadline.elapsed_s
            self.effort.tell(
                OptimizeProgress(self._value(best), self.bound, best.source, elapsed_s)
            )
        if self.effort.keep is not None and best.source != "plan":
            self.effort.keep(lambda: self._changes_to(best.draft))

    def _changes_to(self, draft: DraftPlan) -> list[Change]:
        return [*self._moves(draft), *self._losses(draft)]

    def _value(self, best: Costed) -> float:
        return self.requested - best.cost.rejected

    def _solve(self, search: MovablePlan, start: Costed) -> Costed:
        """Run a solver for a bound, and for a plan that keeps all reservations."""
        name = self._solver(search)
        self._tell(start)
        if not name or not search.commitments:
            return start
        others = self.requested - search.fixed.rejected
        others -= sum(search.cost_model.requested_value(one) for one in search.commitments)

        def lower(bound: float) -> None:
            self._lower(others + bound, start)

        def offer(complete: Callable[[], Costed | None]) -> None:
            if self.effort.keep is not None:
                self.effort.keep(lambda: self._changes_to(_better(start, complete()).draft))

        solving = SolverStep(search, name, self.effort.limits, lower, offer)
        found = solving.run(start.draft)
        self.pooled = others + solving.pooled
        self._lower(others + solving.bound, start)
        best = _better(start, found)
        if best is not start:
            self._tell(best)
        return best

    def _lower(self, bound: float, best: Costed) -> None:
        """Apply a lower bound.

        Raises
        ------
        BoundError
            If the best plan has more value: one of the two is wrong.
        """
        if bound < self._value(best) - _SAME * self.requested:
            raise BoundError(f"a bound of {bound} below a plan worth {self._value(best)}")
        if bound < self.bound:
            self.bound = max(bound, self._value(best))
            self._tell(best)

    def _solver(self, search: MovablePlan) -> str:
        """Return the name of the solver, or an empty string if none can help."""
        if self.effort.solver is not None:
            return self.effort.solver
        worth_it = any(one.value > 0 for one in self.waiting)
        timed = self.effort.limits.time_s is not None
        most = _SOLVABLE if timed else _SOLVABLE_BY_WORK
        return "exact" if worth_it and len(search.commitments) <= most else ""

    def _within_counts(self, search: MovablePlan, best: Costed) -> Costed:
        """Return a draft without the admissions that exceed a policy on counts."""
        added: Counter[tuple[str, str]] = Counter()
        for commitment, _, _ in best.draft.moved.values():
            if commitment.state is State.REFUSED:
                assert commitment.request is not None
                refused = limit_refusal(self.origin, commitment.request, added)
                if refused is None:
                    added[commitment.tenant, commitment.queue] += 1
                else:
                    self.too_many[commitment.id] = refused
        if not self.too_many:
            return best
        draft = best.draft.copy()
        for commitment, _, _ in best.draft.moved.values():
            if commitment.id in self.too_many:
                draft.lift(commitment)
        return search.evaluate(draft, best.source)

    def _answer(self, search: MovablePlan, start: Costed, best: Costed) -> Optimized:
        self._lower(self.bound, best)  # raises an error if the plan exceeds the bound
        pooled = max(self.pooled, self._value(best))
        changes, best = self._on_machines(search, best, start)
        stop = self.effort.limits.stop
        value = self._value(best)
        stopped = stop is not None and stop()
        status = "optimal" if self._is_proven(best) else "stopped" if stopped else "feasible"
        return Optimized(
            tuple(changes),
            self.origin.version,
            start.cost,
            best.cost,
            value,
            self.bound,
            status,
            best.source,
            self.trials,
            left_out=() if self.scope.only is not None else self._left_out(best.draft),
            machine_loss=1 - value / pooled if value < pooled * (1 - _SAME) else None,
            held_work=search.scale.work,
        )

    def _left_out(self, draft: DraftPlan) -> tuple[LeftOut, ...]:
        admit = self.scope.admit_refused
        return tuple(explain_left_out(draft, self.too_many, admit_refused=admit))

    def _on_machines(
        self, search: MovablePlan, best: Costed, start: Costed
    ) -> tuple[list[Change], Costed]:
        """Return a draft and its changes without those that do not fit the machines.

        A draft based on totals may need more than the machines have; omitted changes do not
        affect the Plan. If the result is worse than the start, the start is returned.
        """
        changes, origin = self._changes_to(best.draft), self.origin
        machines = [*changes, *relocations(best.draft, changes)]
        if not machines or origin.prepare(machines, origin.version, joint=True).record is not None:
            return machines, best
        if origin.prepare(changes, origin.version, joint=True).record is not None:
            return changes, best
        changes = without_slots(changes)
        prepared = origin.prepare(changes, origin.version, joint=True)
        if prepared.record is not None:
            return changes, best
        part = feasible_part(origin, changes)
        out = {one.id: one for one in part.left_out if one.id is not None}
        self.too_many |= {
            id_: PlacementResult(one.code, one.detail, binding=one.binding)
            for id_, one in out.items()
        }
        draft = best.draft.copy()
        gone = [one for one, _, _ in best.draft.moved.values() if one.id in out]
        for one in gone:
            draft.lift(one)
        for one in gone:
            if one.state not in (State.REFUSED, State.DEGRADED):
                draft.put_back(one)
        found = search.evaluate(draft, best.source)
        if best is not start and start.score < found.score:
            return self._on_machines(search, start, start)
        return list(part.kept), found

    def _moves(self, draft: DraftPlan) -> Iterator[Change]:
        """Yield the changes for moved, restored and admitted commitments."""
        for commitment, result, holding in draft.moved.values():
            request = commitment.request
            assert request is not None
            if commitment.state is not State.REFUSED:
                if commitment.state is not State.DEGRADED and _same_rows(
                    commitment.before, holding
                ):
                    continue  # it moved and returned
                id_, revision, slots = (
                    commitment.id,
                    commitment.revision,
                    draft.slots(commitment.number),
                )
                yield Update(id_, revision, request, result, OPTIMIZED, OPTIMIZED, slots)
            else:
                slots = draft.slots(commitment.number)
                yield Admit(request, result, OPTIMIZED, anew=True, slots=slots)

    def _losses(self, draft: DraftPlan) -> Iterator[Change]:
        """Yield the losses caused by short machines."""
        for commitment in draft.lifted.values():
            if commitment.state not in (State.REFUSED, State.DEGRADED):
                kept = salvage(draft, commitment)
                yield Degrade(commitment.id, commitment.revision, kept, "machines were lost")


def _better(first: Costed, second: Costed | None) -> Costed:
    """Return the second one if it exists and scores better, else the first."""
    return first if second is None or second.score >= first.score else second


def _same_rows(before: Holding, after: Holding) -> bool:
    """Return whether two holdings have the same allocation at every step."""
    old, new = (
        {
            path: rows.tolist()
            for atom in one.atoms
            for path, rows in atom.occurrences()
            if len(rows)
        }
        for one in (before, after)
    )
    return old == new
