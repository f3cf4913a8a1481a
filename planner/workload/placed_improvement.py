"""A better plan on machines for a workload that was laid: who searches, how long, what comes of it.

Solvers and portfolios see totals. What they placed is laid on machines, which do not hold all of
it; in the rest of the time requests that meet there are placed again (`PlacedSearch`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from planner.agent import Agent, Limits, SolveProgress, SolverAgent, is_proven
from planner.agents import QUICK_SUBSTITUTE, agent_named
from planner.cluster.cluster import Cluster
from planner.deadline import Deadline
from planner.placement import Code, PlacementResult
from planner.plan.batch.admission import rule_refusal
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Refuse
from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.reservation_records import Admitted
from planner.promise import PromiseLevel
from planner.request import Request
from planner.reservations.reservation import Holding
from planner.value import value_asked, value_of
from planner.workload.compile import CompiledWorkload
from planner.workload.placed_search import PlacedRequests, PlacedSearch

#: Part of the time that the agent has before its plan is laid on machines.
AGENT_SHARE: Final = 0.6

#: Trials where neither time nor work is limited, and most of them where only work is.
_TRIALS: Final = 150
_MOST_TRIALS: Final = 1000

#: How often a better plan is held against the Plan, less what that did not take of it.
_PREPARED: Final = 3

#: Agents besides solvers that look for the plan of most value, and whether requests have turns.
_PORTFOLIOS: Final = {"portfolio": True, "portfolio-free": False}

#: Refusals after which other places may still be there.
_FOR_ROOM: Final = frozenset(
    {Code.CAPACITY, Code.CAPACITY_OVER_TIME, Code.QUOTA, Code.COUNT_LIMIT, Code.TIME_LIMIT}
)


def improves(agent: Agent, cluster: Cluster, requests: Sequence[Request]) -> bool:
    """Return whether the plans of an agent are searched on machines once they are laid."""
    if not (isinstance(agent, SolverAgent) or agent.name in _PORTFOLIOS):
        return False
    levels = (request.promise or cluster.promise for request in requests)
    return any(level is PromiseLevel.PLACED for level in levels)


@dataclass(slots=True)
class PlacedImprovement:
    """One search for a better plan on machines.

    Attributes
    ----------
    limits
        When to stop; its time is what the agent has left over.
    bound
        Most value that any plan can have; None where nothing is proven.
    timer
        Seconds that only move forward; measures `taken_s`.
    taken_s
        Seconds that it took.
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
            What the agent answered, in order of the workload.
        plan
            Without the workload.
        record
            Admits what was laid.
        final
            Answers by id; they follow the better plan.
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
        trial = plan.copy()
        trial.apply(record)
        standing = {one.id: one.holding for one in record.changes if isinstance(one, Admitted)}
        requests = [one for one in self.workload.requests if self._may_move(plan, one, final)]
        held = {
            index: (final[one.id], standing[one.id])
            for index, one in enumerate(requests)
            if one.id in standing
        }
        if len(held) == len(requests):
            return None
        draft = PlacedRequests(plan, trial, requests, held)
        start = draft.value
        requested = sum(value_asked(one, draft.reference) for one in requests)
        search = PlacedSearch(draft, self._turns(requests), self.limits.seed)
        deadline = self._deadline()

        def is_over() -> bool:
            over = self._is_reached(draft.value, requested) or deadline.is_over()
            deadline.rounds += not over
            return over

        asked = {index: answers[one.id] for index, one in enumerate(requests)}
        asked = {index: one for index, one in asked.items() if one.placed}
        search.lay_again(asked, deadline.is_over)
        search.run(is_over, lambda value: self._tell(deadline, value))
        if draft.value <= start:
            return None
        return self._record_of(plan, draft, standing, final)

    def _may_move(
        self, plan: Plan, request: Request, final: MutableMapping[str, PlacementResult]
    ) -> bool:
        """Return whether a request is promised machines and has a place, or may have one."""
        if (request.promise or plan.cluster.promise) is not PromiseLevel.PLACED:
            return False
        result = final[request.id]
        if result.placed:
            return True
        return result.code in _FOR_ROOM and rule_refusal(plan, request) is None

    def _turns(self, requests: Sequence[Request]) -> Sequence[int]:
        """Return the turn of each request, as the portfolio takes them; nothing for others."""
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

    def _is_reached(self, value: float, requested: float) -> bool:
        """Return whether a value is as near to the bound as rounding lets it be."""
        return self.bound is not None and is_proven(value, self.bound, requested)

    def _tell(self, deadline: Deadline, value: float) -> None:
        news = self.limits.news
        if news is not None and self.bound is not None:
            told = SolveProgress(deadline.elapsed_s, value, self.bound, "machines", "totals")
            news(told)

    def _record_of(
        self,
        plan: Plan,
        draft: PlacedRequests,
        standing: Mapping[str, Holding],
        final: MutableMapping[str, PlacementResult],
    ) -> CommitRecord | None:
        """Return the record of all answers, those of a draft included; None if that is no better.

        What the Plan does not take of a draft is refused, and the rest is kept.
        """
        answers = dict(final)
        known = dict(standing)
        agent = agent_named(QUICK_SUBSTITUTE)
        for index, request in enumerate(draft.requests):
            place = draft.held.get(index)
            if place is not None:
                answers[request.id], known[request.id] = place.result, place.holding
            elif known.pop(request.id, None) is not None:
                answers[request.id] = draft.refusal(index, agent)
        for _ in range(_PREPARED):
            prepared = plan.prepare(list(self._changes(answers, known)), plan.version, atomic=True)
            if prepared.record is not None:
                final.update(answers)
                return prepared.record
            for one in prepared.conflicts:
                if one.id not in known:
                    return None
                answers[one.id] = PlacementResult(one.code, one.detail, binding=one.binding)
                del known[one.id]
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
