"""Request: a requested reservation, compiled and ready for an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypedDict

from planner.promise import PromiseLevel
from rdl.expressions import Expression
from rdl.text.formatter import format_expression
from rdl.work_graph import WorkGraph


class BareHeader(TypedDict):
    """Owner, time and value of a request, or of a reservation, which has its own level."""

    id: str
    tenant: str
    queue: str
    submitted_ms: int
    weight: float
    priority: int


class RequestHeader(BareHeader):
    """All of a request except its expression."""

    promise: PromiseLevel | None


class WithHeader(Protocol):
    """Anything with a header: a request, compiled or not, a refusal, a workload line."""

    @property
    def id(self) -> str:
        """Its id."""
        ...

    @property
    def tenant(self) -> str:
        """The tenant."""
        ...

    @property
    def queue(self) -> str:
        """The queue."""
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
        """Larger numbers go first."""
        ...

    @property
    def promise(self) -> PromiseLevel | None:
        """The requested or present level; None is the cluster's default."""
        ...


def header_of(asked: WithHeader) -> RequestHeader:
    """Return the header of an object, as arguments for another object with a header."""
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
    """A request for an agent to place.

    Attributes
    ----------
    id
        Unique among reservations and refusals of a Plan.
    tenant, queue
        Tenant and queue; scopes of policies.
    submitted_ms
        Instant of submission, ms from the origin; `graph.submitted` is its step.
    weight
        Factor of the value, 0 or more.
    priority
        Larger numbers go first: orders a batch and dispatch, and decides who may displace whom if
        the cluster has a policy of displacement.
    graph
        The compiled expression, on the Plan's grid.
    promise
        The requested level; None is the cluster's default.
    written
        The text of the request as submitted, if the canonical one differs.
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
    """Return the text of a request as submitted; empty if it adds nothing to the canonical one.

    Parameters
    ----------
    source
        The submitted source. A text is kept literally if the canonical one differs; JSON is kept as
        the canonical text of `asked` if something was added to it.
    asked, planned
        The requested expression, and the same with additions (memory, a zone, dates).
    """
    from rdl.compile.source import is_rdl_text

    if is_rdl_text(source):
        return "" if source == format_expression(planned) else source
    return "" if planned is asked or planned == asked else format_expression(asked)
