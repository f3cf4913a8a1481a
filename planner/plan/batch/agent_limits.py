"""Limits of agents: policies of type `agent`, checked against reservations.

If the limits do not allow an agent's answer, the agent is asked again, on a view in which machines
hold no more of each bundle than the limits leave. This is exact for a request of one atom. Each
atom is limited separately; if together they exceed the limits, the request stays refused.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.agent import Agent, Limits
from planner.capacity.snapshot import PlanSnapshot
from planner.cluster.policy import EACH, AgentLimit
from planner.placement import Binding, Code, PlacementResult
from planner.plan.column_reading import row_columns
from planner.plan.draft import MachineShortage
from planner.plan.placing import MachineCaps
from planner.plan.state import PlanState
from planner.request import Request
from planner.reservations.reservation import AtomAllocation, Holding
from planner.reservations.state import LIVE, STATE_NUMBERS
from rdl.resources import Resources, format_amount
from rdl.work_graph import BUNDLE, LABEL, MAX_HEIGHT

#: int64[steps], from the first step of the profile: reserved amount of a resource.
_Use = NDArray[np.int64]


class AgentUse:
    """Use by each agent: its reservations and the changes of the batch so far.

    Nothing is looked up if no policy limits an agent.
    """

    def __init__(self, plan: PlanState) -> None:
        self._plan = plan
        self._limits = plan.cluster.agent_limits
        self._held: dict[str, dict[str, _Use]] = {}
        self._added: dict[str, int] = {}

    def refusal(
        self, agent: str, holding: Holding, number: int | None = None
    ) -> PlacementResult | None:
        """Return the refusal of an agent's allocation by the limits, or None.

        Parameters
        ----------
        holding
            The allocation.
        number
            The reservation whose allocation it replaces; None for a new reservation.
        """
        for policy in self._limits:
            if policy.agent not in (EACH, agent):
                continue
            refused = self._count_refusal(policy, agent, number)
            refused = refused or self._amount_refusal(policy, agent, holding, number)
            if refused is not None:
                return refused
        return None

    def add(self, agent: str, holding: Holding, number: int | None = None) -> None:
        """Count an agent's allocation for the changes that follow."""
        if not any(policy.agent in (EACH, agent) for policy in self._limits):
            return
        if number is None or not self._made(agent, number):
            self._added[agent] = self._added.get(agent, 0) + 1
        held = self.held_by(agent)
        for resource, change in self._change(agent, holding, number).items():
            held[resource] = held.get(resource, self._nothing()) + change

    def bundles_left(self, agent: str, bundle: Resources) -> _Use:
        """Return int64[steps]: how many more bundles an agent may hold."""
        left = np.full(len(self._nothing()), np.iinfo(np.int64).max, dtype=np.int64)
        nominal, amounts = dict(self._plan.cluster.nominal.items()), dict(bundle.items())
        for policy in self._limits:
            if policy.agent not in (EACH, agent):
                continue
            for resource, most in policy.amounts(nominal).items():
                amount = amounts.get(resource, 0)
                if amount:
                    used = self.held_by(agent).get(resource, self._nothing())
                    left = np.minimum(left, np.maximum(most - used, 0) // amount)
        return left

    def _count_refusal(
        self, policy: AgentLimit, agent: str, number: int | None
    ) -> PlacementResult | None:
        if policy.max_count is None or (number is not None and self._made(agent, number)):
            return None
        meta = self._plan.table.meta
        live = np.isin(meta["state"], [STATE_NUMBERS[state] for state in LIVE])
        standing = int((live & self._plan.table.is_by_agent(agent)).sum()) + self._added.get(
            agent, 0
        )
        if standing < policy.max_count:
            return None
        detail = (
            f"{standing} reservations of agent {agent} exist; policy {policy.name} allows "
            f"{policy.max_count}"
        )
        binding = Binding("", "policy", None, None, standing + 1, policy.max_count, policy.name)
        return PlacementResult(Code.AGENT_LIMIT, detail, binding=binding)

    def _amount_refusal(
        self, policy: AgentLimit, agent: str, holding: Holding, number: int | None
    ) -> PlacementResult | None:
        limits = policy.amounts(dict(self._plan.cluster.nominal.items()))
        change = self._change(agent, holding, number)
        for resource, most in sorted(limits.items()):
            more = change.get(resource)
            if more is None:
                continue
            used = self.held_by(agent).get(resource, self._nothing()) + more
            over = np.where(more > 0, used - most, 0)
            at = int(over.argmax())
            if over[at] > 0:
                return self._exceeds(policy, agent, resource, (at, int(used[at]), most))
        return None

    def _exceeds(
        self, policy: AgentLimit, agent: str, resource: str, found: tuple[int, int, int]
    ) -> PlacementResult:
        at, used, most = found
        detail = (
            f"agent {agent} would hold {format_amount(resource, used)} at once; "
            f"policy {policy.name} allows {format_amount(resource, most)}"
        )
        step = self._plan.ledger.first + at
        binding = Binding("", "policy", step, resource, used, most, policy.name)
        return PlacementResult(Code.AGENT_LIMIT, detail, binding=binding)

    def held_by(self, agent: str) -> dict[str, _Use]:
        """Return int64[steps] by resource: the use by an agent's reservations; computed once."""
        known = self._held.get(agent)
        if known is None:
            plan = self._plan
            later = plan.table.meta["finish"] > plan.ledger.first
            columns = row_columns(
                plan.table, np.flatnonzero(self._plan.table.is_by_agent(agent) & later)
            )
            known = self._held[agent] = {}
            for kind in np.unique(columns.kind).tolist():
                use = self._spread(columns.rows[columns.kind == kind])
                for resource, amount in columns.bundles[kind].items():
                    known[resource] = known.get(resource, self._nothing()) + use * amount
        return known

    def _change(self, agent: str, holding: Holding, number: int | None) -> dict[str, _Use]:
        """Return the change of an agent's use as int64[steps] by resource."""
        found: dict[str, _Use] = {}
        parts = [(holding, 1)]
        if number is not None and self._made(agent, number):
            parts.append((self._plan.table.holding(number), -1))
        for held, sign in parts:
            for atom in held.atoms:
                use = self._spread(atom.all_rows()) * sign
                for resource, amount in atom.bundle.items():
                    found[resource] = found.get(resource, self._nothing()) + use * amount
        return found

    def _made(self, agent: str, number: int) -> bool:
        """Return whether an agent made the current placement of a reservation."""
        return bool(self._plan.table.is_by_agent(agent)[number])

    def _nothing(self) -> _Use:
        return np.zeros(self._plan.grid.horizon - self._plan.ledger.first, dtype=np.int64)

    def _spread(self, rows: NDArray[np.int64]) -> _Use:
        """Return int64[steps]: the bundles of rows at each step."""
        first, steps = self._plan.ledger.first, self._plan.grid.horizon - self._plan.ledger.first
        change = np.zeros(steps + 1, dtype=np.int64)
        np.add.at(change, np.clip(rows[:, 0] - first, 0, steps), rows[:, 2])
        np.subtract.at(change, np.clip(rows[:, 1] - first, 0, steps), rows[:, 2])
        return np.cumsum(change[:-1])


def place_beside_limits(
    request: Request, agent: str, planner: Agent, use: AgentUse, view: PlanSnapshot
) -> PlacementResult:
    """Place a request with a planner, within the rest of an agent's limit.

    Parameters
    ----------
    agent
        Name of the agent whose limits count.
    view
        The view to place it on.
    """
    caps = MachineCaps()
    caps.note(*_caps(request, agent, use, view.first))
    return planner.plan([request], caps.over(view), Limits())[0]


def _caps(request: Request, agent: str, use: AgentUse, first: int) -> list[MachineShortage]:
    """Return when, and to how many bundles, an agent's limits lower the height of an atom."""
    graph, found = request.graph, []
    for vertex in graph.atoms.tolist():
        row = graph.vertices[vertex]
        bundle, most = graph.bundles[int(row[BUNDLE])], int(row[MAX_HEIGHT])
        # All bundles of a `together` count as one bundle.
        label = graph.labels[row[LABEL]] if row[LABEL] >= 0 else None
        count = np.minimum(use.bundles_left(agent, bundle), most)
        ends = np.append(np.flatnonzero(np.diff(count)) + 1, len(count))
        atom = AtomAllocation(graph.paths[vertex], bundle, label, np.empty((0, 3), dtype=np.int64))
        start = 0
        for end in ends.tolist():
            left = int(count[start])
            if left < most:
                found.append(MachineShortage(atom, first + start, first + end, most, left))
            start = end
    return found
