"""Another time for a request where the limits of its agent leave no room at the one it found.

The agent is asked once more, on a view in which machines hold no more of each bundle than the
limits leave. For a request of one atom that is exact; of several each is held to it by itself, and
where they exceed it together the request stays refused.
"""

from __future__ import annotations

import numpy as np

from planner.agent import Agent, Limits
from planner.placement import PlacementResult
from planner.plan.batch.agent_limits import AgentUse
from planner.plan.slots.machine_search import MachineCaps
from planner.plan.slots.slot_batch import MachineShortage
from planner.request import Request
from planner.reservations.reservation import AtomAllocation
from planner.view import PlanView
from rdl.work_graph import BUNDLE, LABEL, MAX_HEIGHT


def place_beside_limits(
    request: Request, agent: str, planner: Agent, use: AgentUse, view: PlanView
) -> PlacementResult:
    """Return where a planner places a request within what an agent may still hold.

    Parameters
    ----------
    agent
        Name of the agent whose limits count.
    view
        What others leave.
    """
    caps = MachineCaps()
    caps.note(*_caps(request, agent, use, view.first))
    return planner.plan([request], caps.over(view), Limits())[0]


def _caps(request: Request, agent: str, use: AgentUse, first: int) -> list[MachineShortage]:
    """Return when an agent may hold fewer bundles of an atom than it may be high, and how many."""
    graph, found = request.graph, []
    for vertex in graph.atoms.tolist():
        row = graph.vertices[vertex]
        bundle, most = graph.bundles[int(row[BUNDLE])], int(row[MAX_HEIGHT])
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
