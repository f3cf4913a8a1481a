"""Offers for refusals on one state of a Plan, from whatever a refusal was asked with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from planner.admission import limits_of
from planner.agent import Agent
from planner.agents import DEFAULT_AGENT, agent_named
from planner.cluster import Cluster
from planner.commit import Asked
from planner.offers import Seeker, find_offers
from planner.placement import Code, PlacementResult
from planner.request import Request
from planner.snapshot import PlanSnapshot
from rdl.compile_context import CompileContext
from rdl.expressions import Expression

if TYPE_CHECKING:
    from planner.plan import Plan

#: Refusals that no change of the expression helps.
HOPELESS: Final = frozenset(
    {Code.MALFORMED, Code.DUPLICATE_ID, Code.COUNT_LIMIT, Code.CONFLICT, Code.PAST_CHANGED}
)


@dataclass(frozen=True, slots=True)
class OfferSearch:
    """One state of a Plan to seek offers on; needs neither the Plan nor a lock any more.

    Attributes
    ----------
    view
        What is free, and the version that offers name.
    cluster
        Its policies and machines.
    stop
        Asked before each trial; once it is True nothing more is tried.
    """

    view: PlanSnapshot
    cluster: Cluster
    stop: Callable[[], bool] = lambda: False

    @classmethod
    def of(cls, plan: Plan, stop: Callable[[], bool] = lambda: False) -> OfferSearch:
        """Freeze the present state of a Plan."""
        return cls(plan.snapshot(), plan.cluster, stop)

    def after(self, placed: Sequence[tuple[Request, PlacementResult]], version: int) -> OfferSearch:
        """Return the search on the state of `version`, in which `placed` is committed besides."""
        return replace(self, view=self.view.after(placed, version))

    def context(self, submitted_ms: int) -> CompileContext:
        """Return what a request submitted then is compiled against."""
        cluster = self.cluster
        return CompileContext(self.view.grid, submitted_ms, cluster.shapes(), cluster.max_period_ms)

    def seeker(self, asked: Request | Asked, expression: Expression, agent: Agent) -> Seeker:
        """Return what offers for one request are sought with."""
        return Seeker(
            asked,
            expression,
            self.context(asked.submitted_ms),
            self.view,
            quick(agent),
            limits_of(self.cluster.policies, asked.tenant, asked.queue),
            self.stop,
        )

    def offers(
        self, asked: Request | Asked, expression: Expression, agent: Agent, most: int
    ) -> tuple[dict[str, Any], ...]:
        """Return up to `most` offers as files.md writes them, the least change first."""
        found = find_offers(self.seeker(asked, expression, agent), most)
        return tuple(offer.to_json() for offer in found)


def quick(agent: Agent) -> Agent:
    """Return the agent that tries variants for `agent`.

    A solver starts from the greedy plan and keeps at least its value, so what the greedy agent
    places is accepted by the solver too; dozens of solves would take too long.
    """
    return agent_named(DEFAULT_AGENT) if hasattr(agent, "solve") else agent
