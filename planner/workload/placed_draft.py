"""Requests of a workload on machines, as a draft: taken out, put in elsewhere, and undone.

Unlike `planner.replanning.draft_plan.DraftPlan` nothing has begun here and nobody is promised
anything yet: a request may be lost for others that are worth more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from planner.agent import Agent, Limits
from planner.capacity.overlay import Overlay, Taking, takings_of
from planner.capacity.snapshot import PlanSnapshot
from planner.placement import Code, PlacementResult
from planner.plan.batch.admission import limit_refusal
from planner.plan.plan import Plan
from planner.plan.slots.machine_search import (
    MachineCaps,
    machines_refusal,
    search_alone,
    until_it_stands,
)
from planner.plan.slots.slot_batch import MachineShortage, SlotBatch
from planner.request import Request
from planner.reservations.holding import holding_of
from planner.reservations.reservation import Holding
from planner.value import value_of
from planner.view import PlanView

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
    takings: Sequence[Taking]
    value: float


@dataclass(frozen=True, slots=True)
class _Step:
    """One request taken out (sign -1) or put in (1)."""

    index: int
    place: HeldPlace
    sign: int


class PlacedDraft:
    """What requests hold of totals and of machines.

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
        self._ledger, self._first = trial.ledger, max(trial.now, trial.ledger.first)
        self._batch = SlotBatch(trial.room, origin.cluster.nominal, trial.now)
        self._version = trial.version
        self.held = {index: self._place_of(index, *place) for index, place in held.items()}
        self.value = sum(place.value for place in self.held.values())
        self._steps: list[_Step] = []
        self._marks: list[int] = []
        self._counted = bool(origin.cluster.policies)
        self._added: Counter[tuple[str, str]] = Counter()
        for index in self.held:
            self._count(index, 1)

    def _place_of(self, index: int, result: PlacementResult, holding: Holding) -> HeldPlace:
        request = self.requests[index]
        takings = takings_of(holding, self._ledger, request.tenant, request.queue)
        value = value_of(request, result.choices, self.reference)
        return HeldPlace(result, holding, takings, value)

    def take_out(self, index: int) -> None:
        """Let a request hold nothing."""
        place = self.held[index]
        mark = self._batch.mark()
        self._batch.give(place.holding)
        self._note(_Step(index, place, -1), mark)

    def put_in(self, index: int, agent: Agent | None) -> bool:
        """Find a request a place on machines, and take it; return whether there is one.

        Parameters
        ----------
        agent
            Asked for the times first; None asks nobody. A request of one atom is then searched for
            on machines.
        """
        request = self.requests[index]
        if self._counted and limit_refusal(self.origin, request, self._added) is not None:
            return False
        mark = self._batch.mark()
        found = None
        if agent is not None:
            found = self._ask(request, agent)
        if found is None:
            found = self._search_alone(request)
        if found is None:
            return False
        self._note(_Step(index, self._place_of(index, *found), 1), mark)
        return True

    def lay(self, index: int, result: PlacementResult) -> bool:
        """Put a request where an agent placed it, if totals and machines hold it there."""
        request = self.requests[index]
        if self._counted and limit_refusal(self.origin, request, self._added) is not None:
            return False
        mark, holding = self._batch.mark(), holding_of(request, result)
        takings = takings_of(holding, self._ledger, request.tenant, request.queue)
        if Overlay(self._ledger).shortage(takings) is not None:
            return False
        found = self._batch.place(holding, request.graph)
        if isinstance(found, MachineShortage):
            return False
        self._note(_Step(index, self._place_of(index, result, found), 1), mark)
        return True

    def put_back(self, index: int, place: HeldPlace) -> bool:
        """Put a request where it stood before, machines included; return whether it fits there."""
        request = self.requests[index]
        if self._counted and limit_refusal(self.origin, request, self._added) is not None:
            return False
        mark, room = self._batch.mark(), self._batch.room
        for atom in place.holding.atoms:
            assert atom.slots is not None
            if not room.fits(atom.slots, atom.bundle):
                self._batch.undo(mark)
                return False
            self._batch.change(((atom.slots, atom.bundle),), 1)
        if Overlay(self._ledger).shortage(place.takings) is not None:
            self._batch.undo(mark)
            return False
        self._note(_Step(index, place, 1), mark)
        return True

    def mark(self) -> int:
        """Return where the draft is, for :meth:`undo`."""
        return len(self._steps)

    def undo(self, mark: int) -> None:
        """Undo what was done since a mark."""
        while len(self._steps) > mark:
            step = self._steps.pop()
            self._batch.undo(self._marks.pop())
            self._count_step(step, -1)

    def keep(self) -> None:
        """Undo nothing of what was done so far."""
        self._batch.keep()
        self._steps.clear()
        self._marks.clear()

    def _note(self, step: _Step, mark: int) -> None:
        self._steps.append(step)
        self._marks.append(mark)
        self._count_step(step, 1)

    def _count_step(self, step: _Step, way: int) -> None:
        """Let totals, counts and the value follow a step (1), or its undoing (-1)."""
        sign = step.sign * way
        self._ledger.take((one.demand, one.rows, sign) for one in step.place.takings)
        self.value += sign * step.place.value
        self._count(step.index, sign)
        if sign > 0:
            self.held[step.index] = step.place
        else:
            del self.held[step.index]

    def _count(self, index: int, sign: int) -> None:
        request = self.requests[index]
        self._added[request.tenant, request.queue] += sign

    def _search_alone(self, request: Request) -> tuple[PlacementResult, Holding] | None:
        mark = self._batch.mark()
        overlay = Overlay(self._ledger)
        found = search_alone(self._batch, overlay, request, self._first)
        if found is None or self._stands(request, found[1], overlay):
            return found
        self._batch.undo(mark)
        return None

    def refusal(self, index: int, agent: Agent) -> PlacementResult:
        """Return why a request that waits has no place: the agent's answer, or machines."""
        request = self.requests[index]
        view = PlanSnapshot(self._ledger, self._version)
        result = agent.plan([request], view, Limits())[0]
        if not result.placed:
            return result
        mark = self._batch.mark()
        found = self._batch.place(holding_of(request, result), request.graph)
        self._batch.undo(mark)
        if isinstance(found, MachineShortage):
            return machines_refusal(found, self._ledger.grid, request)
        return PlacementResult(Code.TIME_LIMIT, _NOT_TRIED)

    def _stands(self, request: Request, holding: Holding, overlay: Overlay) -> bool:
        takings = takings_of(holding, self._ledger, request.tenant, request.queue)
        return overlay.shortage(takings) is None

    def _ask(self, request: Request, agent: Agent) -> tuple[PlacementResult, Holding] | None:
        view = PlanSnapshot(self._ledger, self._version)
        caps = MachineCaps(self._batch.room, request.graph, self._first)

        def ask(over: Callable[[PlanView], PlanView]) -> PlacementResult:
            return agent.plan([request], over(view), Limits())[0]

        def stand(
            result: PlacementResult,
        ) -> tuple[PlacementResult, Holding] | MachineShortage:
            found = self._batch.place(holding_of(request, result), request.graph)
            return found if isinstance(found, MachineShortage) else (result, found)

        found = until_it_stands(caps, ask, stand, _ROUNDS)
        return None if isinstance(found, MachineShortage) else found
