"""Commit the answers to a workload at once; machines are found for what was placed.

Agents see totals. Where machines do not hold what a solver placed, the requests of the largest
value density choose first, and at the end those without a place are tried once more in what is
left (*filling*).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from planner.agent import Agent, Limits, SolverAgent
from planner.agents import QUICK_SUBSTITUTE, agent_named
from planner.placement import MACHINES, Code, PlacementResult
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Committed, Prepared, Refuse
from planner.plan.records.commit_records import CommitRecord, RecordedChange
from planner.plan.records.reservation_records import Admitted, Refused
from planner.promise import PromiseLevel
from planner.request import Request
from planner.value import size_of
from planner.workload.compile import CompiledWorkload
from planner.workload.placed_improvement import PlacedImprovement

_Answers: TypeAlias = dict[str, PlacementResult]

#: Refusals that room on machines has nothing to do with.
_OTHERWISE = frozenset({Code.MALFORMED, Code.DUPLICATE_ID, Code.UNSATISFIABLE, Code.BEYOND_HORIZON})


def lacks_machines(result: PlacementResult) -> bool:
    """Return whether a request was refused that totals have room for and machines have not."""
    return result.binding is not None and result.binding.kind == MACHINES


def change_of(
    request: Request, result: PlacementResult, agent: str, planner: Agent | None = None
) -> Change:
    """Return the change that an answer asks for.

    Parameters
    ----------
    planner
        Asked once more where machines cannot hold what was placed.
    """
    if result.code is None:
        return Admit(request, result, agent, planner=planner)
    return Refuse(request, result.code, result.detail, result.binding)


def commit_workload(
    plan: Plan,
    workload: CompiledWorkload,
    results: Sequence[PlacementResult],
    agent: Agent,
    improve: PlacedImprovement | None = None,
) -> list[PlacementResult]:
    """Commit every answer in the order of the lines; return the answers as they ended.

    A placement that the Plan does not take (a limit on the number of reservations, or machines,
    which agents do not see) becomes a refusal with the Plan's reason.

    Parameters
    ----------
    improve
        Looks for a better plan on machines; None leaves it as it was laid.
    """
    final = {request.id: result for request, result in zip(workload.requests, results, strict=True)}
    committing = _Committing(plan, workload, agent)
    prepared = committing.prepare(final)
    if prepared.conflicts:
        for one in prepared.conflicts:
            assert one.id is not None
            final[one.id] = PlacementResult(one.code, one.detail, binding=one.binding)
        prepared = committing.prepare(final)
    for outcome in prepared.outcomes:
        if isinstance(outcome, Committed) and outcome.id is not None and outcome.result is not None:
            final[outcome.id] = outcome.result
    if prepared.record is None:
        return [final[request.id] for request in workload.requests]
    if committing.chooses_by_value and any(map(lacks_machines, final.values())):
        changes = committing.fill(prepared.record, final)
        record = committing.in_lines(replace(prepared.record, changes=tuple(changes)))
        takings = None
    else:
        record = committing.in_lines(prepared.record)
        takings = prepared.takings
    if improve is not None:
        better = improve.run(plan, record, final, results)
        if better is not None:
            record, takings = committing.in_lines(better), None
    plan.apply(record, takings)
    return [final[request.id] for request in workload.requests]


@dataclass(frozen=True, slots=True)
class _Committing:
    """What a workload is committed with."""

    plan: Plan
    workload: CompiledWorkload
    agent: Agent

    @property
    def chooses_by_value(self) -> bool:
        """Whether requests choose machines by value, and what is left is filled."""
        return isinstance(self.agent, SolverAgent)

    @property
    def planner(self) -> Agent:
        """The agent that is asked once more."""
        return agent_named(QUICK_SUBSTITUTE) if self.chooses_by_value else self.agent

    def prepare(self, results: Mapping[str, PlacementResult]) -> Prepared:
        """Return what the answers come to."""
        workload = self.workload
        pairs = list(zip(workload.requests, workload.positions, strict=True))
        if self.chooses_by_value and any(map(self._wants_machines, workload.requests)):
            pairs.sort(key=lambda pair: self._rank(pair[0]))
        changes: list[tuple[int, Change]] = [
            (position, change_of(request, results[request.id], self.agent.name, self.planner))
            for request, position in pairs
        ]
        changes += [
            (one.position, Refuse(one.request, one.code, str(one.error)))
            for one in workload.refusals
        ]
        if not self.chooses_by_value:
            changes.sort(key=lambda entry: entry[0])
        return self.plan.prepare([change for _, change in changes], self.plan.version)

    def fill(self, record: CommitRecord, final: _Answers) -> list[RecordedChange]:
        """Return the changes of a record, with admissions of what the planner still finds room for.

        `final` learns where they stand.
        """
        trial = self.plan.copy()
        trial.apply(record)
        admitted: dict[str, Admitted] = {}
        waiting = [
            one
            for one in self.workload.requests
            if not final[one.id].placed and final[one.id].code not in _OTHERWISE
        ]
        for request in sorted(waiting, key=self._rank):
            result = self.planner.plan([request], trial.view(), Limits())[0]
            if not result.placed:
                continue
            admit = Admit(request, result, self.agent.name, anew=True, planner=self.planner)
            prepared = trial.prepare([replace(admit, agent=self.planner.name)], trial.version)
            if prepared.record is None:
                continue
            trial.apply(prepared.record, prepared.takings)
            (change,), (outcome,) = prepared.record.changes, prepared.outcomes
            assert isinstance(change, Admitted)
            assert isinstance(outcome, Committed)
            final[request.id] = outcome.result or result
            admitted[request.id] = replace(change, agent=self.agent.name)
        return [admitted.get(_id_of(one), one) for one in record.changes]

    def in_lines(self, record: CommitRecord) -> CommitRecord:
        """Return a record with its changes in the order of the lines."""
        return replace(record, changes=self.in_order(record.changes))

    def in_order(self, changes: Sequence[RecordedChange]) -> tuple[RecordedChange, ...]:
        """Return changes in the order of the lines."""
        place = {
            request.id: position
            for request, position in zip(
                self.workload.requests, self.workload.positions, strict=True
            )
        }
        place |= {one.request.id: one.position for one in self.workload.refusals}
        return tuple(sorted(changes, key=lambda one: place[_id_of(one)]))

    def _wants_machines(self, request: Request) -> bool:
        level = request.promise or self.plan.cluster.promise
        return level is not PromiseLevel.POOLED

    def _rank(self, request: Request) -> tuple[float, float]:
        """Return the key of an order: most value for each bit of the cluster, then the largest."""
        size = size_of(request.graph, self.plan.cluster.reference)
        return (-request.weight if size > 0 else 0.0, -size)


def _id_of(change: RecordedChange) -> str:
    assert isinstance(change, Admitted | Refused)
    return change.id if isinstance(change, Admitted) else change.refusal.id
