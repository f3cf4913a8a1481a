"""Requests of a workload on a draft: taken out, put in elsewhere, and undone.

Unlike `planner.replanning.draft_plan.DraftPlan` nothing has begun here and nobody is promised
anything yet: a request may be lost for others that are worth more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from planner.agent import Agent, Limits
from planner.capacity.shortage import Taking, takings_of
from planner.placement import Code, PlacementResult
from planner.plan.batch.admission import limit_refusal
from planner.plan.draft import Draft, MachineShortage
from planner.plan.placing import Found, machines_refusal, place_alone, place_by_agent
from planner.plan.plan import Plan
from planner.request import Request
from planner.reservations.holding import holding_of
from planner.reservations.reservation import Holding
from planner.value import value_of

#: How often an agent is asked for a place that machines do not hold.
_ROUNDS: Final = 3

_NOT_TRIED: Final = "there may be a place: the search ended before it was found"


class HeldPlace(NamedTuple):
    """Where a request stands.

    Attributes
    ----------
    result
        The answer to it.
    holding
        What it holds, with slots.
    takings
        What that takes of totals.
    value
        What it is worth there.
    """

    result: PlacementResult
    holding: Holding
    takings: list[Taking]
    value: float


class _Step(NamedTuple):
    """One request taken out (sign -1) or put in (1), after a savepoint of the draft."""

    request: int
    place: HeldPlace
    sign: int
    savepoint: int


class PlacedRequests:
    """Which requests are placed, and where, on a draft.

    Parameters
    ----------
    origin
        The Plan without the requests; it is not changed.
    trial
        A copy of it on which those that have a place are admitted; it is changed from now on.
    requests
        All that may be put in or taken out.
    held
        Index -> where it stands on the trial.

    Attributes
    ----------
    value
        What all that is held is worth.
    """

    def __init__(
        self,
        origin: Plan,
        trial: Plan,
        requests: Sequence[Request],
        held: dict[int, tuple[PlacementResult, Holding]],
    ) -> None:
        self.origin, self.requests = origin, requests
        self.reference = origin.cluster.reference
        self._draft = Draft.of(trial)
        self.held = {index: self._place_of(index, *place) for index, place in held.items()}
        self.value = sum(place.value for place in self.held.values())
        self._steps: list[_Step] = []
        self._counted = bool(origin.cluster.policies)
        self._added: Counter[tuple[str, str]] = Counter()
        for index in self.held:
            self._count(index, 1)

    def _place_of(self, index: int, result: PlacementResult, holding: Holding) -> HeldPlace:
        value = value_of(self.requests[index], result.choices, self.reference)
        return HeldPlace(result, holding, self._takings(index, holding), value)

    def _takings(self, index: int, holding: Holding) -> list[Taking]:
        request = self.requests[index]
        return takings_of(holding, self._draft.ledger, request.tenant, request.queue)

    def take_out(self, index: int) -> None:
        """Let a request hold nothing."""
        place, savepoint = self.held[index], self._draft.savepoint()
        self._draft.remove(place.holding, place.takings)
        self._note(_Step(index, place, -1, savepoint))

    def put_in(self, index: int, agent: Agent | None) -> bool:
        """Find a request a place on machines, and take it; return whether there is one.

        Parameters
        ----------
        agent
            Asked for the times first; None asks nobody. A request of one atom is then searched for
            on machines.
        """
        request, draft = self.requests[index], self._draft
        if self._is_one_too_many(index):
            return False
        savepoint = draft.savepoint()
        found: Found | MachineShortage | None = None
        if agent is not None:
            found = place_by_agent(draft, request, agent, _ROUNDS)
        if found is None or isinstance(found, MachineShortage):
            found = place_alone(draft, request)
        if found is None:
            return False
        place = self._place_of(index, *found)
        draft.take(place.takings)
        self._note(_Step(index, place, 1, savepoint))
        return True

    def lay(self, index: int, result: PlacementResult) -> bool:
        """Put a request where an agent placed it, if totals and machines hold it there."""
        request, draft = self.requests[index], self._draft
        if self._is_one_too_many(index):
            return False
        savepoint, holding = draft.savepoint(), holding_of(request, result)
        if draft.shortage(self._takings(index, holding)) is not None:
            return False
        found = draft.place_exactly(holding, request.graph)
        if isinstance(found, MachineShortage):
            return False
        place = self._place_of(index, result, found)
        draft.take(place.takings)
        self._note(_Step(index, place, 1, savepoint))
        return True

    def put_back(self, index: int, place: HeldPlace) -> bool:
        """Put a request where it stood before, machines included; return whether it fits there."""
        savepoint = self._draft.savepoint()
        if self._is_one_too_many(index):
            return False
        if not self._draft.restore(place.holding, place.takings):
            return False
        self._note(_Step(index, place, 1, savepoint))
        return True

    def _is_one_too_many(self, index: int) -> bool:
        """Return whether a `limits` policy refuses a request next to those that are held."""
        return (
            self._counted
            and limit_refusal(self.origin, self.requests[index], self._added) is not None
        )

    def mark(self) -> int:
        """Return where the requests are, for :meth:`undo`."""
        return len(self._steps)

    def undo(self, mark: int) -> None:
        """Undo what was done since a mark."""
        while len(self._steps) > mark:
            step = self._steps.pop()
            self._draft.roll_back(step.savepoint)
            self._count_step(step, -1)

    def keep(self) -> None:
        """Undo nothing of what was done so far."""
        self._draft.keep()
        self._steps.clear()

    def _note(self, step: _Step) -> None:
        self._steps.append(step)
        self._count_step(step, 1)

    def _count_step(self, step: _Step, way: int) -> None:
        """Let counts and the value follow a step (1), or its undoing (-1)."""
        sign = step.sign * way
        self.value += sign * step.place.value
        self._count(step.request, sign)
        if sign > 0:
            self.held[step.request] = step.place
        else:
            del self.held[step.request]

    def _count(self, index: int, sign: int) -> None:
        request = self.requests[index]
        self._added[request.tenant, request.queue] += sign

    def refusal(self, index: int, agent: Agent) -> PlacementResult:
        """Return why a request that waits has no place: the agent's answer, or machines."""
        request, draft = self.requests[index], self._draft
        result = agent.plan([request], draft.view(), Limits())[0]
        if not result.placed:
            return result
        savepoint = draft.savepoint()
        found = draft.place_exactly(holding_of(request, result), request.graph)
        draft.roll_back(savepoint)
        if isinstance(found, MachineShortage):
            return machines_refusal(found, draft.ledger.grid, request)
        return PlacementResult(Code.TIME_LIMIT, _NOT_TRIED)
