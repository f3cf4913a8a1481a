"""Request: one reservation asked for, compiled and ready for an agent."""

from __future__ import annotations

from dataclasses import dataclass

from rdl.work_graph import WorkGraph


@dataclass(frozen=True, slots=True)
class Request:
    """What an agent is asked to place.

    Attributes
    ----------
    id
        Unique among reservations and refusals of a Plan.
    tenant, queue
        Who asks and under which queue; scopes of policies.
    submitted_ms
        Instant of submission, ms from the origin; `graph.submitted` is its step.
    weight
        Factor of the value, 0 or more.
    priority
        Larger first; orders a batch and dispatch, nothing else.
    graph
        The compiled expression, on the Plan's grid.
    creditable
        Whether work run above its entitlement makes leases held later unnecessary.
    """

    id: str
    tenant: str
    queue: str
    submitted_ms: int
    weight: float
    priority: int
    graph: WorkGraph
    creditable: bool = False
