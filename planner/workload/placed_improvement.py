"""Search for a better plan of a workload on machines.

Solvers and portfolios see totals. Some of their placements do not fit the machines; in the
remaining time a local search removes requests around a waiting one and inserts all of them again.
Nothing has started or been promised yet, so a request may be dropped for others of more value. The
value never falls below that of the start, whenever the search is stopped.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from planner.agent import Agent, Deadline, Limits, SolveProgress, SolverAgent, is_proven
from planner.agents import QUICK_SUBSTITUTE, agent_named
from planner.cluster.cluster import Cluster
from planner.cluster.policy import RequestLimits
from planner.optimization.candidates import newcomer, refusal_of
from planner.optimization.movable_plan import Costed, MovablePlan
from planner.optimization.objective import CostModel, Objective, PlanCost
from planner.placement import Code, PlacementResult
from planner.plan.batch.admission import limit_refusal, rule_refusal
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Refuse
from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.reservation_records import Admitted, Relocated
from planner.promise import PromiseLevel
from planner.replanning.commitment import Commitment
from planner.replanning.draft_plan import DraftPlan, StartingMachines, shortage_of
from planner.replanning.local_search import Keep, LocalSearch, Spans, remove_around_a_moment
from planner.replanning.moves import CommitmentMoves
from planner.request import Request
from planner.reservations.holding import with_slots
from planner.reservations.reservation import Holding
from planner.value import PriceList, value_of
from planner.workload.compile import CompiledWorkload

#: Fraction of the time for the agent, before its plan is assigned to machines.
AGENT_SHARE: Final = 0.6

#: Trials if neither time nor work is limited, and their maximum if only work is.
_TRIALS: Final = 150
_MOST_TRIALS: Final = 1000

#: Agents that choose times; each finds different ones.
_PLACERS: Final = ("gree-l", "gree", "earliest", "aligned")

#: Probability that a removed request tries its previous place first; one value per trial.
_BACK: Final = (0.0, 0.9, 0.9)

#: Attempts of an agent to find a place that fits the machines.
_ROUNDS: Final = 3

#: Attempts to prepare a better plan, each time without the placements that the Plan rejected.
_PREPARED: Final = 3

#: Agents, other than solvers, that maximise value, and whether requests have turns.
_PORTFOLIOS: Final = {"portfolio": True, "portfolio-free": False}

#: Refusals after which other places may still exist.
_FOR_ROOM: Final = frozenset(
    {Code.CAPACITY, Code.CAPACITY_OVER_TIME, Code.QUOTA, Code.COUNT_LIMIT, Code.TIME_LIMIT}
)


def improves(agent: Agent, cluster: Cluster, requests: Sequence[Request]) -> bool:
    """Return whether an agent's plans are improved on machines after the assignment."""
    if not (isinstance(agent, SolverAgent) or agent.name in _PORTFOLIOS):
        return False
    levels = (request.promise or cluster.promise for request in requests)
    return any(level is PromiseLevel.PLACED for level in levels)


@dataclass(slots=True)
class PlacedImprovement:
    """A search for a better plan on machines.

    Attributes
    ----------
    limits
        Limits; the time is the rest that the agent has not used.
    bound
        Bound on the value of any plan; None if nothing is proven.
    timer
        Monotonic seconds; measures `taken_s`.
    taken_s
        Duration of the search in seconds.
    """

    workload: CompiledWorkload
    agent: Agent
    limits: Limits
    bound: float | None = None
    timer: Callable[[], float] = time.perf_counter
    taken_s: float = 0.0

    def run(
        self,
        plan: Plan,
        record: CommitRecord,
        final: MutableMapping[str, PlacementResult],
        pooled: Sequence[PlacementResult],
    ) -> CommitRecord | None:
        """Return the record of a better plan, or None.

        Parameters
        ----------
        pooled
            The agent's answers, in order of the workload.
        plan
            Without the workload.
        record
            The record that admits the requests with machines.
        final
            Answers by id; updated to the better plan.
        """
        began = self.timer()
        answers = dict(zip((one.id for one in self.workload.requests), pooled, strict=True))
        better = self._better(plan, record, final, answers)
        self.taken_s = self.timer() - began
        return better

    def _better(
        self,
        plan: Plan,
        record: CommitRecord,
        final: MutableMapping[str, PlacementResult],
        answers: Mapping[str, PlacementResult],
    ) -> CommitRecord | None:
        standing = {one.id: one.holding for one in record.changes if isinstance(one, Admitted)}
        requests = [one for one in self.workload.requests if self._may_move(plan, one, final)]
        if all(one.id in standing for one in requests):
            return None
        relocated = [one for one in record.changes if isinstance(one, Relocated)]
        search = PlacedSearch(plan, requests, self._turns(requests), self.limits.seed, relocated)
        start = search.start(
            (one, final[one.id], standing[one.id])
            for one in self.workload.requests
            if one.id in standing
        )
        deadline, value = self._deadline(), search.value(start)

        def is_over() -> bool:
            proven = self.bound is not None and is_proven(value, self.bound, search.requested)
            over = proven or deadline.is_over()
            deadline.rounds += not over
            return over

        def report(found: Costed) -> None:
            nonlocal value
            if search.value(found) <= value:
                return
            value, news = search.value(found), self.limits.news
            if news is not None and self.bound is not None:
                seconds = deadline.elapsed_s
                news(SolveProgress(seconds, value, self.bound, "machines", "totals"))

        placed = {id_: one for id_, one in answers.items() if one.placed}
        best = search.in_other_orders(start, placed, deadline.is_over)
        report(best)
        best = search.run(best, is_over, report)
        if search.value(best) <= search.value(start):
            return None
        return self._record_of(plan, best.draft, search.commitments, standing, final)

    def _may_move(
        self, plan: Plan, request: Request, final: MutableMapping[str, PlacementResult]
    ) -> bool:
        """Return whether a request gets machines promised and has, or may get, a place."""
        if (request.promise or plan.cluster.promise) is not PromiseLevel.PLACED:
            return False
        result = final[request.id]
        if result.placed:
            return True
        return result.code in _FOR_ROOM and rule_refusal(plan, request) is None

    def _turns(self, requests: Sequence[Request]) -> Sequence[int]:
        """Return the turn of each request as in the portfolio; empty for other agents."""
        if not _PORTFOLIOS.get(self.agent.name, False):
            return ()
        keys = [(-one.priority, one.submitted_ms) for one in requests]
        number = {key: turn for turn, key in enumerate(sorted(set(keys)))}
        return [number[key] for key in keys]

    def _deadline(self) -> Deadline:
        limits = self.limits
        if limits.time_s is None and limits.work is not None:
            limits = replace(limits, work=min(limits.work, _MOST_TRIALS))
        elif limits.work is not None:
            limits = replace(limits, work=None)
        return Deadline(limits, _TRIALS)

    def _record_of(
        self,
        plan: Plan,
        draft: DraftPlan,
        commitments: Sequence[Commitment],
        standing: Mapping[str, Holding],
        final: MutableMapping[str, PlacementResult],
    ) -> CommitRecord | None:
        """Return the record of all answers, including a draft's; None if it is not better.

        Placements of the draft that the Plan rejects are refused, and the rest is kept.
        """
        answers = dict(final)
        known = dict(standing)
        agent = agent_named(QUICK_SUBSTITUTE)
        for one in commitments:
            placed = draft.moved.get(one.number)
            if placed is not None:
                answers[one.id], known[one.id] = placed[1:]
            elif known.pop(one.id, None) is not None:
                answers[one.id] = refusal_of(draft, one, agent)
        for _ in range(_PREPARED):
            prepared = plan.prepare(list(self._changes(answers, known)), plan.version, atomic=True)
            if prepared.record is not None:
                final.update(answers)
                return prepared.record
            for left in prepared.conflicts:
                if left.id not in known:
                    return None
                answers[left.id] = PlacementResult(left.code, left.detail, binding=left.binding)
                del known[left.id]
            if self._worth(plan, answers) <= self._worth(plan, final):
                return None
        return None

    def _worth(self, plan: Plan, answers: Mapping[str, PlacementResult]) -> float:
        reference = plan.cluster.reference
        placed = ((one, answers[one.id]) for one in self.workload.requests)
        return sum(value_of(one, to.choices, reference) for one, to in placed if to.placed)

    def _changes(
        self, answers: Mapping[str, PlacementResult], held: Mapping[str, Holding]
    ) -> Iterator[Change]:
        for request in self.workload.requests:
            result = answers[request.id]
            if result.code is not None:
                yield Refuse(request, result.code, result.detail, result.binding)
            else:
                slots = tuple(atom.slots for atom in held[request.id].atoms)
                yield Admit(request, result, self.agent.name, slots=slots)
        for one in self.workload.refusals:
            yield Refuse(one.request, one.code, str(one.error))


class PlacedSearch:
    """A local search over the requests of a workload, placed on machines.

    Parameters
    ----------
    plan
        The Plan without the workload; it is not changed.
    turns
        Turn of each request; no request of an earlier turn is dropped for one of a later turn.
        Empty if there are no turns.
    relocated
        Reservations of the Plan that change machines for the requests.

    Attributes
    ----------
    commitments
        The requests.
    requested
        Total value of the requests at a preference of 1.
    """

    def __init__(
        self,
        plan: Plan,
        requests: Sequence[Request],
        turns: Sequence[int] = (),
        seed: int = 0,
        relocated: Iterable[Relocated] = (),
    ) -> None:
        self._plan = plan
        self.commitments = [newcomer(plan, -1 - at, one) for at, one in enumerate(requests)]
        self._turns = {
            one.number: turn for one, turn in zip(self.commitments, turns, strict=bool(turns))
        }
        self._draw = np.random.default_rng(seed)
        self._agents = tuple(agent_named(name) for name in _PLACERS)
        policies = plan.cluster.policies
        self._counted = any(isinstance(policy, RequestLimits) for policy in policies)
        machines = _machines_after(plan, relocated, [one.number for one in self.commitments])
        self._empty = DraftPlan.of(plan, machines)
        prices = PriceList(plan.cluster.price_factors(plan.grid))
        cost_model = CostModel(plan.cluster, prices, plan.now)
        moves = CommitmentMoves(plan, shortage_of(self._empty.ledger))
        scale = cost_model.scale_of(self.commitments)
        objective = Objective(lexicographic=True)
        self._movable = MovablePlan(
            self.commitments, objective, cost_model, scale, moves, PlanCost()
        )
        self.requested = sum(map(cost_model.requested_value, self.commitments))

    def value(self, candidate: Costed) -> float:
        """Return the total value of the placed requests."""
        return self.requested - candidate.cost.rejected

    def start(self, held: Iterable[tuple[Request, PlacementResult, Holding]]) -> Costed:
        """Return the draft with the given holdings; requests outside the search stay."""
        draft = self._empty.copy()
        known = {one.id: one for one in self.commitments}
        for one in self.commitments:
            draft.lift(one)
        for number, (request, result, holding) in enumerate(held, 1 + len(known)):
            one = known.get(request.id) or newcomer(self._plan, -number, request)
            if not draft.put(one, result, holding):
                raise AssertionError(f"the place of {request.id} is taken")
        return self._movable.evaluate(draft, "plan")

    def in_other_orders(
        self,
        best: Costed,
        answers: Mapping[str, PlacementResult],
        is_over: Callable[[], bool],
    ) -> Costed:
        """Try placing the requests by value, then by weight and value; return the best plan.

        Parameters
        ----------
        answers
            Placements of an agent on totals, by id.
        """
        turns = np.array([self._turns.get(one.number, 0) for one in self.commitments])
        values = np.array([-one.value for one in self.commitments])
        weights = np.array([-_request_of(one).weight for one in self.commitments])
        for keys in ([values, turns], [values, weights, turns]):
            draft = best.draft.copy()
            for one in self.commitments:
                if one.number in draft.moved:
                    draft.lift(one)
            for index in np.lexsort(keys).tolist():
                if is_over():
                    return best
                one = self.commitments[index]
                if self._may_insert(draft, one) and not (
                    one.id in answers and draft.take(one, answers[one.id])
                ):
                    draft.admit(one, self._agents[0], _ROUNDS)
            trial = self._movable.update(best, draft, self.commitments)
            if self._is_accepted(best, trial, self.commitments):
                best = trial
        return best

    def run(
        self, start: Costed, is_over: Callable[[], bool], report: Callable[[Costed], None]
    ) -> Costed:
        """Return the best plan found until `is_over`, or until no request of value waits."""
        search = LocalSearch(
            self._movable,
            self._waiting,
            Spans.of(self.commitments),
            self._place,
            self._agents,
            ((1.0, remove_around_a_moment),),
            self._draw,
            self._is_accepted,
            back=_BACK,
            may_insert=self._may_insert,
            keep=Keep.VALUE,
            ends_early=True,
        )
        return search.run(start, is_over, report)

    def _waiting(self, draft: DraftPlan) -> list[Commitment]:
        return [one for one in draft.lifted.values() if one.value > 0]

    def _place(self, draft: DraftPlan, one: Commitment, agent: Agent) -> bool:
        asks = len(_request_of(one).graph.vertices) > 1 or self._draw.random() < 0.5
        return draft.admit(one, agent if asks else None, _ROUNDS)

    def _may_insert(self, draft: DraftPlan, one: Commitment) -> bool:
        """Return whether no `limits` policy refuses a request alongside the placed ones."""
        if not self._counted:
            return True
        added = Counter((other.tenant, other.queue) for other, _, _ in draft.moved.values())
        return limit_refusal(self._plan, _request_of(one), added) is None

    def _is_accepted(self, current: Costed, trial: Costed, changed: Sequence[Commitment]) -> bool:
        """Return whether a trial has more value, or no less and no more falls, and keeps turns."""
        if trial.score > current.score:
            return False
        before, after = current.draft.moved, trial.draft.moved
        lost = [one.number for one in changed if one.number in before and one.number not in after]
        gained = [one.number for one in changed if one.number in after and one.number not in before]
        if not lost or not self._turns:
            return True
        first = min((self._turns[number] for number in gained), default=None)
        return first is not None and min(self._turns[number] for number in lost) >= first


def _request_of(commitment: Commitment) -> Request:
    assert commitment.request is not None
    return commitment.request


def _machines_after(
    plan: Plan, relocated: Iterable[Relocated], newcomers: Iterable[int]
) -> StartingMachines:
    """Return the machines with the relocated reservations at their new places."""
    room, held = plan.room.copy(), {}
    for change in relocated:
        number = plan.table.number_of(change.id)
        assert number is not None
        before = plan.table.holding(number)
        held[number] = with_slots(before, change.slots)
        for holding, sign in ((before, -1), (held[number], 1)):
            for atom in holding.atoms:
                if atom.slots is not None:
                    room.take(atom.slots, atom.bundle, sign)
    return StartingMachines(room, frozenset(newcomers), held=held)
