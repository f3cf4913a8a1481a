"""Request: one reservation asked for, compiled and ready for an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypedDict

from planner.promise import PromiseLevel
from rdl.expressions import Expression
from rdl.text.formatter import format_expression
from rdl.work_graph import WorkGraph


class BareHeader(TypedDict):
    """Who asks, when and how much it is worth: of a reservation too, which has its own level."""

    id: str
    tenant: str
    queue: str
    submitted_ms: int
    weight: float
    priority: int


class RequestHeader(BareHeader):
    """All of a request but what is requested."""

    promise: PromiseLevel | None


class WithHeader(Protocol):
    """What carries a header: a request, what could not become one, a refusal, a workload line."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def tenant(self) -> str:
        """Who asks."""
        ...

    @property
    def queue(self) -> str:
        """Under which queue."""
        ...

    @property
    def submitted_ms(self) -> int:
        """Instant of submission, ms from the origin."""
        ...

    @property
    def weight(self) -> float:
        """Factor of the value."""
        ...

    @property
    def priority(self) -> int:
        """Larger first."""
        ...

    @property
    def promise(self) -> PromiseLevel | None:
        """The level asked for, or held; None is the cluster's."""
        ...


def header_of(asked: WithHeader) -> RequestHeader:
    """Return the header of whatever carries one, for the arguments of something else that does."""
    return RequestHeader(
        id=asked.id,
        tenant=asked.tenant,
        queue=asked.queue,
        submitted_ms=asked.submitted_ms,
        weight=asked.weight,
        priority=asked.priority,
        promise=asked.promise,
    )


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
        Larger first: orders a batch and dispatch, and says who may displace whom where the cluster
        has a policy of displacement.
    graph
        The compiled expression, on the Plan's grid.
    promise
        The level it asks for; None takes the cluster's.
    written
        The text of the request as it was submitted, where the canonical one differs.
    """

    id: str
    tenant: str
    queue: str
    submitted_ms: int
    weight: float
    priority: int
    graph: WorkGraph
    promise: PromiseLevel | None = None
    written: str = ""


def text_as_written(source: object, asked: Expression, planned: Expression) -> str:
    """Return the text of a request as it was submitted; empty if nothing is lost without it.

    Parameters
    ----------
    source
        What was submitted. A text is kept to the letter where the canonical one differs; JSON is
        kept as the canonical text of what it asks for, where something was added.
    asked, planned
        What it asks for, and that with what was added to it (memory, a zone, dates).
    """
    from rdl.compile.source import is_rdl_text

    if is_rdl_text(source):
        return "" if source == format_expression(planned) else source
    return "" if planned is asked or planned == asked else format_expression(asked)
