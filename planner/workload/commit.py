"""Commit the answers to a workload jointly, with machines for the placements.

Agents see totals. Their placements are assigned to machines jointly (`place_together`); then every
refused request is tried again alongside all current allocations, until no more is admitted. So the
reason of a refusal is the limit that is binding in the final plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from planner.agent import Agent, Limits, SolverAgent
from planner.agents import QUICK_SUBSTITUTE, agent_named
from planner.agents.greedy.batch import taking_order
from planner.placement import MACHINES, Code, PlacementResult
from planner.plan.batch.admission import rule_refusal
from planner.plan.draft import Draft
from planner.plan.placing import WantedSlots, place_together
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Committed, Prepared, Refuse
from planner.plan.records.commit_records import CommitRecord, RecordedChange
from planner.plan.records.reservation_records import Admitted, Refused, Relocated
from planner.promise import PromiseLevel
from planner.request import Request
from planner.reservations.holding import holding_of, leases_of, with_slots
from planner.reservations.slots import Slots
from planner.value import size_of
from planner.workload.compile import CompiledWorkload
from planner.workload.placed_improvement import PlacedImprovement

#: Refusals for lack of capacity: the final plan may have free capacity for them.
_FOR_ROOM: Final = frozenset(
    {
        Code.AGENT_LIMIT,
        Code.CAPACITY,
        Code.CAPACITY_OVER_TIME,
        Code.CONFLICT,
        Code.COUNT_LIMIT,
        Code.QUOTA,
    }
)

#: Budget for unsuccessful searches when requests are tried again; a search costs as much as there
#: are machines.
_LOOKS: Final = 1_000_000


def lacks_machines(result: PlacementResult) -> bool:
    """Return whether a request was refused for lack of machines although totals suffice."""
    return result.binding is not None and result.binding.kind == MACHINES


def change_of(
    request: Request,
    result: PlacementResult,
    agent: str,
    planner: Agent | None = None,
    slots: tuple[Slots, ...] | None = None,
) -> Change:
    """Return the change for an answer.

    Parameters
    ----------
    planner
        Places the request again if machines cannot hold the placement.
    slots
        Slots of each atom, if known.
    """
    if result.code is None:
        return Admit(request, result, agent, planner=planner, slots=slots)
    return Refuse(request, result.code, result.detail, result.binding)


def commit_workload(
    plan: Plan,
    workload: CompiledWorkload,
    results: Sequence[PlacementResult],
    agent: Agent,
    improve: PlacedImprovement | None = None,
    is_over: Callable[[], bool] = bool,
) -> list[PlacementResult]:
    """Commit every answer in the order of the lines; return the final answers.

    A placement that the Plan rejects (a limit on the number of reservations, or machines, which
    agents do not see) becomes a refusal with the Plan's reason.

    Parameters
    ----------
    improve
        Searches for a better plan on machines; None skips this.
    is_over
        Whether the time is over or the run is stopped: then refused requests are not tried again.
    """
    final = {request.id: result for request, result in zip(workload.requests, results, strict=True)}
    committing = _Committing(plan, workload, agent, final, is_over)
    committing.lay_together()
    prepared = committing.prepare()
    if prepared.conflicts:
        for one in prepared.conflicts:
            assert one.id is not None
            final[one.id] = PlacementResult(one.code, one.detail, binding=one.binding)
        prepared = committing.prepare()
    for outcome in prepared.outcomes:
        if isinstance(outcome, Committed) and outcome.id is not None and outcome.result is not None:
            final[outcome.id] = outcome.result
    record, takings = prepared.record, prepared.takings
    if record is None:
        return [final[request.id] for request in workload.requests]
    if len(workload.requests) > 1 and any(map(committing.wants_machines, workload.requests)):
        record, takings = committing.ask_again(record), None
        if improve is not None:
            better = improve.run(plan, record, final, results)
            record = record if better is None else committing.ask_again(better)
    plan.apply(committing.in_lines(record), takings)
    return [final[request.id] for request in workload.requests]


@dataclass(frozen=True, slots=True)
class _Committing:
    """The state of committing a workload.

    Attributes
    ----------
    final
        The answers so far.
    is_over
        Whether to end the search.
    slots
        Slots of each atom of the requests that found machines jointly, by id.
    """

    plan: Plan
    workload: CompiledWorkload
    agent: Agent
    final: dict[str, PlacementResult]
    is_over: Callable[[], bool]
    slots: dict[str, tuple[Slots, ...]] = field(default_factory=dict)

    @property
    def planner(self) -> Agent:
        """The agent for repeated requests."""
        solves = isinstance(self.agent, SolverAgent)
        return agent_named(QUICK_SUBSTITUTE) if solves else self.agent

    def lay_together(self) -> None:
        """Find machines for all placements, in order of start."""
        placed = [
            (request, self.final[request.id])
            for request in self.workload.requests
            if self.wants_machines(request) and self.final[request.id].placed
        ]
        if len(placed) > 1:
            wanted = {
                number: WantedSlots(holding_of(*one).atoms, leases_of(one[0].graph))
                for number, one in enumerate(placed)
            }
            draft = Draft.of(self.plan)
            try:
                laid = place_together(draft, wanted)
            finally:
                draft.close()
            self.slots.update((placed[number][0].id, slots) for number, slots in laid.items())

    def prepare(self) -> Prepared:
        """Prepare the commit of the answers; requests with machines come first and keep them."""
        workload, final = self.workload, self.final
        pairs = sorted(
            zip(workload.requests, workload.positions, strict=True),
            key=lambda pair: (pair[0].id not in self.slots, pair[1]),
        )
        changes = [
            change_of(
                request,
                final[request.id],
                self.agent.name,
                self.planner,
                self.slots.get(request.id),
            )
            for request, _ in pairs
        ]
        changes += [Refuse(one.request, one.code, str(one.error)) for one in workload.refusals]
        return self.plan.prepare(changes, self.plan.version)

    def ask_again(self, record: CommitRecord) -> CommitRecord:
        """Return a record that refuses no request that would fit alongside it.

        The reason of each remaining refusal is that of its last attempt. If the time ends, requests
        not yet tried keep their refusal.
        """
        trial = self.plan.copy()
        trial.apply(record)
        renewed: dict[str, RecordedChange] = {_id_of(one): one for one in record.changes}
        judged: dict[str, int] = {}
        looks = _LOOKS // max(1, trial.room.machines)
        before = -1
        while trial.version != before:
            before = trial.version
            for request in self._waiting():
                if looks < 0 or self.is_over():
                    break
                if judged.get(request.id) == trial.version:
                    continue
                answer = self.planner.plan([request], trial.view(), Limits())[0]
                refused: PlacementResult | None = answer
                if answer.placed:
                    refused = self._admit(trial, request, answer, renewed)
                    looks -= refused is not None
                if refused is not None:
                    self.final[request.id] = refused
                    judged[request.id] = trial.version
        self._renew_reasons(renewed)
        return replace(record, changes=tuple(renewed.values()))

    def _waiting(self) -> list[Request]:
        """Return the requests refused for lack of capacity, in their order of turns."""
        solves = isinstance(self.agent, SolverAgent)
        codes = _FOR_ROOM | {Code.TIME_LIMIT} if solves else _FOR_ROOM
        waiting = [
            one
            for one in self.workload.requests
            if self.final[one.id].code in codes and rule_refusal(self.plan, one) is None
        ]
        if solves:
            return sorted(waiting, key=self._rank)
        return [waiting[place] for place in taking_order(waiting).tolist()]

    def _admit(
        self,
        trial: Plan,
        request: Request,
        answer: PlacementResult,
        renewed: dict[str, RecordedChange],
    ) -> PlacementResult | None:
        """Admit a request alongside all others if machines allow; else return the refusal.

        `renewed` has the changes of the record so far, by id.
        """
        planner = self.planner
        admit = Admit(request, answer, planner.name, anew=True, planner=planner)
        prepared = trial.prepare([admit], trial.version)
        if prepared.record is None:
            (one,) = prepared.conflicts
            return PlacementResult(one.code, one.detail, binding=one.binding)
        trial.apply(prepared.record, prepared.takings)
        (outcome,) = prepared.outcomes
        assert isinstance(outcome, Committed)
        self.final[request.id] = outcome.result or answer
        for change in prepared.record.changes:
            known = renewed.get(_id_of(change))
            if isinstance(change, Admitted):
                renewed[change.id] = replace(change, agent=self.agent.name)
            elif isinstance(change, Relocated) and isinstance(known, Admitted):
                holding = with_slots(known.holding, change.slots)
                renewed[change.id] = replace(known, holding=holding)
            else:
                renewed[_id_of(change)] = change
        return None

    def _renew_reasons(self, renewed: dict[str, RecordedChange]) -> None:
        """Update refusals with the limit that is binding in the final plan."""
        refused = [one for one in self.workload.requests if not self.final[one.id].placed]
        changes = [change_of(one, self.final[one.id], self.agent.name) for one in refused]
        prepared = self.plan.prepare(changes, self.plan.version) if changes else None
        if prepared is not None and prepared.record is not None:
            renewed |= {_id_of(one): one for one in prepared.record.changes}

    def in_lines(self, record: CommitRecord) -> CommitRecord:
        """Return a record with its changes in the order of the lines."""
        place = dict(self._places())
        last = len(place) + len(record.changes)  # earlier reservations that were displaced
        changes = tuple(sorted(record.changes, key=lambda one: place.get(_id_of(one), last)))
        return replace(record, changes=changes)

    def _places(self) -> Iterator[tuple[str, int]]:
        """Yield the position of each line."""
        for request, position in zip(self.workload.requests, self.workload.positions, strict=True):
            yield request.id, position
        for one in self.workload.refusals:
            yield one.request.id, one.position

    def wants_machines(self, request: Request) -> bool:
        """Return whether a request gets machines promised."""
        level = request.promise or self.plan.cluster.promise
        return level is not PromiseLevel.POOLED

    def _rank(self, request: Request) -> tuple[float, float]:
        """Return a sort key: most value per share of the cluster, then the largest."""
        size = size_of(request.graph, self.plan.cluster.reference)
        return (-request.weight if size > 0 else 0.0, -size)


def _id_of(change: RecordedChange) -> str:
    assert isinstance(change, Admitted | Refused | Relocated)
    return change.refusal.id if isinstance(change, Refused) else change.id
