"""Offers: whether a request would be accepted; if not, the reason and alternatives."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import UNSET, UnsetType

from planner.agents import agent_named
from planner.offer_search import OfferSearch
from planner.placement import Code, PlacementResult
from planner.plan.batch.admission import screen
from planner.plan.records.changes import UncompiledRequest
from planner.request import Request
from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.text.formatter import format_expression
from service.access.user import User
from service.asks import EXAMPLE, ReservationRequest, agent_of, complete_request, level_of
from service.commits.answers import seconds_of_search
from service.commits.commands import with_requests
from service.http.kinds import integer
from service.http.kit import Answer, Calls, Count, doc, one_of
from service.ownership import tenant_of
from service.problems import ApiError, malformed_problem, problem_of_rdl
from service.resources.explanation import told_holders
from service.resources.reservation_pages import HELD_BY, HOLDERS, BindingView, OfferView
from service.response import Response
from service.runtime import Runtime

#: Time limit of the search in one call, seconds.
_SECONDS: Final = 5.0

#: Fields of a request that the requests of its offers keep.
_TAKEN: Final = ("id", "tenant", "queue", "weight", "priority", "promise")


_CODES: Final = tuple(str(code) for code in Code)


class OfferRequest(ReservationRequest):
    most: Annotated[int, integer(1, 10), doc("Maximum number of offers.")] = 3


class OfferRefusal(Answer):
    code: Annotated[str, one_of(_CODES)]
    detail: str
    binding: Annotated[BindingView | None, doc("The limit that was binding.")]
    holders: Annotated[list[dict[str, Any]] | UnsetType, HOLDERS] = UNSET
    held_by: Annotated[str | UnsetType, HELD_BY] = UNSET


class Offers(Answer):
    version: Count
    accepted: Annotated[bool, doc("Whether the request is accepted as it is.")]
    refusal: Annotated[OfferRefusal | None, doc("Reason why it is not accepted.")]
    offers: list[OfferView]


calls = Calls()


@calls.post(
    "/v1/offers",
    "The offers, the least change first.",
    fails=(Code.MALFORMED,),
    examples={"a stage": EXAMPLE},
)
def find_offers(runtime: Runtime, user: User, body: OfferRequest) -> Annotated[Response, Offers]:
    """Return whether a request would be accepted; if not, the reason and offers.

    Searched on a snapshot; an offer sent back in the same version of the Plan is accepted. A
    request that no plan could satisfy is answered with offers nevertheless.
    """
    tenant = tenant_of(user, body.tenant, "")
    agent = agent_named(agent_of(runtime, body.agent, ""))
    with runtime.reading() as plan:
        search = OfferSearch.of(plan, seconds_of_search(_SECONDS), (level_of(body),))

    def screening(request: Request) -> PlacementResult | None:
        with runtime.reading() as plan:
            return screen(plan, request)

    try:
        expression = complete_request(runtime, read_source(body.rdl)).expression
        asked = UncompiledRequest(
            body.id or runtime.new_id(),
            tenant,
            body.queue,
            runtime.now_ms(),
            body.weight,
            body.priority,
            format_expression(expression),
            level_of(body),
        )
        with runtime.planner.deciding(agent.name) as limits:
            answer = search.answer(asked, expression, agent, body.most, screening, limits)
    except RdlError as error:
        raise problem_of_rdl(error, "/rdl") from error
    refusal = answer["refusal"]
    if refusal is not None:
        refusal |= told_holders(runtime, refusal["binding"], user)
    if refusal is not None and refusal["code"] == Code.MALFORMED:
        # A request that compiles but is malformed has an invalid queue or promise level.
        field = "promise" if refusal["binding"] is not None else "queue"
        raise malformed_problem([ApiError(refusal["detail"], pointer=f"/{field}")])
    fields = {name: getattr(body, name) for name in _TAKEN}
    fields = {name: one for name, one in fields.items() if one not in (None, False)}
    fields["tenant"] = tenant
    return Response(200, {**answer, "offers": with_requests(answer["offers"], fields)})
