"""Machines for trials: what a commit would find for a request, on a copy of the Plan's room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.agent import Agent
from planner.capacity.snapshot import PlanSnapshot
from planner.cluster.cluster import Cluster
from planner.machines.room import MachineRoom
from planner.placement import PlacementResult
from planner.plan.records.reservation_records import Admitted
from planner.plan.slots.machine_search import MachineSearch, machines_refusal
from planner.plan.slots.slot_batch import MachineShortage, SlotBatch
from planner.plan.state import PlanState
from planner.promise import PromiseLevel
from planner.request import Request
from planner.reservations.holding import holding_of
from planner.reservations.reservation import Holding


@dataclass(frozen=True, slots=True)
class TrialMachines:
    """Machines of one state of a Plan; only the trials write them.

    Attributes
    ----------
    room
        What machines have left.
    cluster
        What it promises.
    now
        The first step that is not past.
    """

    room: MachineRoom
    cluster: Cluster
    now: int

    @classmethod
    def of(cls, plan: PlanState) -> TrialMachines:
        """Copy what the machines of a Plan have left; only its writer may ask."""
        first = max(plan.now, plan.ledger.first)
        return cls(plan.room.copy(), plan.cluster, first)

    def take(self, admitted: Iterable[Admitted]) -> None:
        """Take what more reservations are promised for good."""
        for one in admitted:
            self._batch().take(one.holding)

    def stand(
        self,
        request: Request,
        result: PlacementResult,
        view: PlanSnapshot,
        planner: Agent,
        agent: str | None = None,
    ) -> PlacementResult:
        """Return where a commit would let a request stand that an agent placed, or the refusal.

        Parameters
        ----------
        view
            The same state, as agents read it.
        planner
            Asked once more where there are no machines for what was placed.
        agent
            Name of the agent that placed it, where that is another.
        """
        level = request.promise or self.cluster.promise
        if level is PromiseLevel.POOLED:
            return result
        batch = self._batch()
        try:
            found = batch.place(holding_of(request, result), request.graph)
            if not isinstance(found, MachineShortage):
                return result

            def stand(one: Request, placed: PlacementResult) -> Holding | MachineShortage:
                return batch.place(holding_of(one, placed), one.graph)

            search = MachineSearch(batch, view.overlay(), lambda: view, self.now, stand)
            asked = agent is None or agent == planner.name
            other = search.elsewhere(request, found, planner, asked=asked)
        finally:
            batch.close()
        if isinstance(other, MachineShortage):
            return machines_refusal(other, view.grid, request)
        return other[0]

    def _batch(self) -> SlotBatch:
        return SlotBatch(self.room, self.cluster.nominal, self.now)
