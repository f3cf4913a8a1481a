"""Renegotiate a reservation: its started part stays and counts towards the new work.

If the present allocation already satisfies the new request, it is the answer: a reservation can
always be renegotiated to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.agent import Agent, Limits
from planner.capacity.shortage import takings_of
from planner.capacity.snapshot import PlanSnapshot
from planner.placement import Code, PlacementResult
from planner.renegotiation.continuation import Continuation, fixed_of, held_result
from planner.renegotiation.remainder import PastChangedError, remainder_of
from planner.request import Request
from planner.reservations.rows import split
from planner.view import PlanView
from rdl.errors import RdlError
from rdl.text.parser import parse

if TYPE_CHECKING:
    from planner.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class PreparedUpdate:
    """An update ready to be placed; independent of the Plan.

    Attributes
    ----------
    request
        The whole new request.
    view
        Free capacity without the old allocation, and with the fixed part of the new one.
    rest
        The fixed part and the remainder of a started request; None if it has not started.
    answer
        The answer if no agent is needed, else None.
    has_begun
        Whether the reservation has a past allocation.
    """

    request: Request
    view: PlanSnapshot
    rest: Continuation | None = None
    answer: PlacementResult | None = None
    has_begun: bool = False

    def place(self, agent: Agent, limits: Limits) -> PlacementResult:
        """Return the whole new allocation, or the refusal; slow, and needs no lock."""
        if self.answer is not None:
            return self.answer
        if self.rest is not None:
            return self.rest.place(self.view, agent, limits)
        return agent.plan([self.request], self.view, limits)[0]

    def planner(self, agent: Agent) -> Agent | None:
        """Return an agent to place the request on other views; None if nothing may move."""
        if not self.has_begun:
            return agent
        if self.rest is None or self.rest.remainder.request is None:
            return None
        return RemainderAgent(self.rest, agent)


@dataclass(frozen=True, slots=True)
class RemainderAgent:
    """Places a started request on views without it: only its remainder may move."""

    rest: Continuation
    agent: Agent

    @property
    def name(self) -> str:
        """Name of the agent that places the remainder."""
        return self.agent.name

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> Sequence[PlacementResult]:
        """Place the one request of the update."""
        beside = view.after([(self.rest.request, self.rest.fixed_result())], view.version)
        return [self.rest.place(beside, self.agent, limits) for _ in requests]


def renegotiation_of(plan: Plan, id: str, request: Request) -> PreparedUpdate:  # noqa: A002
    """Prepare an update of reservation `id` to `request` on the present Plan.

    Parameters
    ----------
    request
        Compiled on the Plan's grid, with the submission time of the reservation.

    Raises
    ------
    KeyError
        If there is no such reservation.
    """
    number = plan.table.number_of(id)
    if number is None:
        raise KeyError(id)
    before = plan.table.holding(number)
    view = plan.view_without([id])
    period = plan.cluster.max_period_ms
    has_begun = any(len(split(atom.all_rows(), plan.now)[0]) for atom in before.atoms)
    same = held_result(request, before, period)
    if same is not None:
        return PreparedUpdate(request, view, answer=same, has_begun=has_begun)
    if not has_begun:
        return PreparedUpdate(request, view)
    try:
        fixed = fixed_of(request.graph, before, plan.now, keeps_runs=False)
        context = plan.cluster.context(plan.grid, request.submitted_ms)
        remainder = remainder_of(request, fixed, context, plan.now)
    except PastChangedError as error:
        asked = parse(plan.table.read(number).expression)
        answer = PlacementResult(Code.PAST_CHANGED, error.detail(asked))
        return PreparedUpdate(request, view, answer=answer, has_begun=True)
    except RdlError as error:
        answer = PlacementResult(Code(error.code), f"what is left to do cannot be planned: {error}")
        return PreparedUpdate(request, view, answer=answer, has_begun=True)
    rest = Continuation(request, fixed, remainder, period)
    done = rest.whole(PlacementResult()) if remainder.request is None else None
    return PreparedUpdate(request, _with_fixed(plan, number, rest), rest, done, has_begun=True)


def _with_fixed(plan: Plan, number: int, rest: Continuation) -> PlanSnapshot:
    """Return a view without the old allocation and with the fixed part of the new one."""
    ledger = plan.ledger.copy()
    scope = plan.table.scope(number)
    old = takings_of(plan.table.holding(number), ledger, *scope, -1)
    new = takings_of(rest.holding(), ledger, *scope)
    ledger.take((piece.demand, piece.rows, piece.sign) for piece in (*old, *new))
    return PlanSnapshot(ledger, plan.version)
