"""POST /v1/offers: whether a request would be accepted, why not, and what would be instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.agents import agent_named
from planner.offers.search import OfferSearch
from planner.placement import Code, PlacementResult
from planner.plan.batch.admission import screen
from planner.plan.records.changes import UncompiledRequest
from planner.promise import asked_level
from planner.request import Request
from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.text.formatter import format_expression
from service.access.actor import present_actor
from service.calls.reservations.holders import told_holders
from service.calls.reservations.reservations import agent_of
from service.commits.answers.refusal_offers import seconds_of_search
from service.commits.changes.offer_requests import with_requests
from service.commits.screening.ownership import tenant_of
from service.problems import ApiError, malformed_problem, problem_of_rdl
from service.runtime import Runtime

#: Longest search for one call.
_SECONDS: Final = 5.0

#: Fields of a request that the request of its offers keeps.
_TAKEN: Final = ("id", "tenant", "queue", "weight", "priority", "promise")


def find_offers(runtime: Runtime, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether a request would be accepted, and if not, what stands in the way and offers.

    Searched on a snapshot; an offer sent back in the same version of the Plan is accepted.

    Parameters
    ----------
    values
        Fields of `service.http.views.reservations.offers`.

    Raises
    ------
    ApiProblemError
        ``malformed``; ``forbidden``; ``too_many`` or ``unavailable`` where a solver is asked for
        and has no time for it. A request that no plan could satisfy is answered with offers all the
        same.
    """
    tenant = tenant_of(present_actor().user, values["tenant"], "")
    agent = agent_named(agent_of(runtime, values, ""))
    with runtime.reading() as plan:
        search = OfferSearch.of(plan, seconds_of_search(_SECONDS), (asked_level(values),))

    def screening(request: Request) -> PlacementResult | None:
        with runtime.reading() as plan:
            return screen(plan, request)

    try:
        expression = read_source(values["rdl"])
        asked = UncompiledRequest(
            values["id"] or runtime.new_id(),
            tenant,
            values["queue"],
            runtime.now_ms(),
            values["weight"],
            values["priority"],
            format_expression(expression),
            asked_level(values),
        )
        with runtime.planner.solvers.deciding(agent.name) as limits:
            answer = search.answer(asked, expression, agent, values["most"], screening, limits)
    except RdlError as error:
        raise problem_of_rdl(error, "/rdl") from error
    refusal = answer["refusal"]
    if refusal is not None:
        refusal |= told_holders(runtime, refusal["binding"], present_actor().user)
    if refusal is not None and refusal["code"] == Code.MALFORMED:
        # What compiled and is still malformed names a queue or a level that it cannot have.
        field = "promise" if refusal["binding"] is not None else "queue"
        raise malformed_problem([ApiError(refusal["detail"], pointer=f"/{field}")])
    fields = {name: values[name] for name in _TAKEN if values[name] not in (None, False)}
    fields["tenant"] = tenant
    return {**answer, "offers": with_requests(answer["offers"], fields)}
