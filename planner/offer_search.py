"""Search for offers for refusals on one state of a Plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from planner.agent import Agent, Limits, SolverAgent
from planner.agents import QUICK_SUBSTITUTE, agent_named
from planner.capacity.shortage import takings_of
from planner.capacity.snapshot import PlanSnapshot
from planner.cluster.cluster import Cluster
from planner.offers import Seeker, find_offers, request_of
from planner.placement import Code, PlacementResult
from planner.plan.batch.admission import limits_of
from planner.plan.draft import Draft
from planner.plan.placing import try_on_machines
from planner.plan.records.changes import UncompiledRequest
from planner.plan.records.reservation_records import Admitted
from planner.promise import PromiseLevel
from planner.request import Request
from planner.reservations.reservation import binding_to_json
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.errors import RdlError
from rdl.expressions import Expression
from rdl.time_grid import TimeGrid

if TYPE_CHECKING:
    from planner.plan.plan import Plan

#: Codes of refusals that no change of the expression can avoid.
HOPELESS: Final = frozenset(
    {
        Code.MALFORMED,
        Code.DUPLICATE_ID,
        Code.COUNT_LIMIT,
        Code.PRIORITY_LIMIT,
        Code.AGENT_LIMIT,
        Code.CONFLICT,
        Code.PAST_CHANGED,
    }
)


@dataclass(frozen=True, slots=True)
class OfferSearch:
    """One state of a Plan to search offers on; independent of the Plan and its lock.

    Attributes
    ----------
    view
        The free capacity, and the version that offers name.
    cluster
        Its policies and machines.
    stop
        Called before each trial; once it returns True, nothing more is tried.
    draft
        Draft of the same state, with its own copy of machines; None if only offers for promises of
        totals are needed.
    """

    view: PlanSnapshot
    cluster: Cluster
    stop: Callable[[], bool] = lambda: False
    draft: Draft | None = None

    @classmethod
    def of(
        cls,
        plan: Plan,
        stop: Callable[[], bool] = lambda: False,
        levels: Iterable[PromiseLevel | None] = (None,),
    ) -> OfferSearch:
        """Freeze the present state of a Plan.

        Parameters
        ----------
        levels
            Promise levels of the requests; None is the cluster's default. The free capacity of
            machines is copied if any of them promises machines, which is slow.
        """
        default = plan.cluster.promise
        pooled = all((level or default) is PromiseLevel.POOLED for level in levels)
        view = plan.snapshot()
        draft = None
        if not pooled:
            room = plan.room.copy()
            draft = Draft(view.ledger, lambda: room, plan.now, view.version)
        return cls(view, plan.cluster, stop, draft)

    def after(self, admitted: Sequence[Admitted], version: int) -> OfferSearch:
        """Return the search on the state of `version`, with more admissions.

        It takes over the draft of this search, which must not be used any more.
        """
        if self.draft is None:
            held = ((one.tenant, one.queue, one.holding) for one in admitted)
            return replace(self, view=self.view.holding(held, version))
        for one in admitted:
            self.draft.take(takings_of(one.holding, self.view.ledger, one.tenant, one.queue))
            self.draft.take_slots(one.holding)
        self.draft.keep()
        self.draft.version = version
        return replace(self, view=self.draft.view())

    def context(self, submitted_ms: int) -> CompileContext:
        """Return the context to compile a request submitted at a time."""
        return self.cluster.context(self.view.grid, submitted_ms)

    def seeker(
        self, asked: Request | UncompiledRequest, expression: Expression, agent: Agent
    ) -> Seeker:
        """Return the search for offers for one request."""
        return Seeker(
            asked,
            expression,
            self.context(asked.submitted_ms),
            self.view,
            quick(agent),
            limits_of(self.cluster.policies, asked.tenant, asked.queue),
            self.stop,
            self.draft,
        )

    def offers(
        self, asked: Request | UncompiledRequest, expression: Expression, agent: Agent, most: int
    ) -> tuple[dict[str, Any], ...]:
        """Return up to `most` offers in the form of files.md, the least change first."""
        found = find_offers(self.seeker(asked, expression, agent), most)
        return tuple(offer.to_json() for offer in found)

    def answer(
        self,
        asked: UncompiledRequest,
        expression: Expression,
        agent: Agent,
        most: int,
        screening: Callable[[Request], PlacementResult | None],
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> dict[str, Any]:
        """Return whether a request would be accepted, and if not, the reason and offers.

        Parameters
        ----------
        screening
            Refusal of a request for a reason that needs no agent
            (`planner.plan.batch.admission.screen`).
        limits
            Limits of the agent for the unchanged request.

        Raises
        ------
        RdlError
            If the expression is malformed; an unsatisfiable one gets an answer.
        """
        refused = self._refusal(asked, expression, agent, screening, limits)
        found: tuple[dict[str, Any], ...] = ()
        if refused is not None and refused.code not in HOPELESS:
            found = self.offers(asked, expression, agent, most)
        return {
            "version": self.view.version,
            "accepted": refused is None,
            "refusal": None if refused is None else _refusal_json(refused, self.view.grid),
            "offers": list(found),
        }

    def _refusal(
        self,
        asked: UncompiledRequest,
        expression: Expression,
        agent: Agent,
        screening: Callable[[Request], PlacementResult | None],
        limits: Limits,
    ) -> PlacementResult | None:
        try:
            graph = compile_expression(expression, self.context(asked.submitted_ms))
        except RdlError as error:
            if error.code == Code.MALFORMED:
                raise
            return PlacementResult(Code(error.code), str(error))
        request = request_of(asked, graph)
        refused = screening(request)
        if refused is None:
            refused = agent.plan([request], self.view, limits)[0]
            if refused.placed and self.draft is not None:
                planner = quick(agent)
                same = agent.name == planner.name
                refused = try_on_machines(self.draft, request, refused, planner, asked=same)
        return None if refused.placed else refused


def _refusal_json(refused: PlacementResult, grid: TimeGrid) -> dict[str, Any]:
    binding = refused.binding
    return {
        "code": str(refused.code),
        "detail": refused.detail,
        "binding": None if binding is None else binding_to_json(binding, grid),
    }


def quick(agent: Agent) -> Agent:
    """Return the agent that tries variants for `agent`.

    A solver starts from the greedy plan and keeps at least its value, so it also accepts what the
    greedy agent places; dozens of solves would take too long.
    """
    return agent_named(QUICK_SUBSTITUTE) if isinstance(agent, SolverAgent) else agent
