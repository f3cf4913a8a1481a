"""POST /v1/offers: what little would have to change for a request to be accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.placement import Code
from service import use_cases
from service.api.call import Answer, Body, Call, Reply, Route, json_of
from service.api.fields import Field, integer, schema_of
from service.api.reservations import ASK

if TYPE_CHECKING:
    from service.runtime import Runtime

_FIELDS: Final[tuple[Field, ...]] = (
    *ASK,
    integer("most", "Most offers.", 1, 10, default=3),
)


def _offers(runtime: Runtime, call: Call) -> Reply:
    ask = use_cases.read_ask(runtime, call.body)
    return Reply(200, use_cases.offers(runtime, ask, call.body["most"]))


ROUTES: Final = (
    Route(
        "POST",
        "/v1/offers",
        "findOffers",
        "Whether a request would be accepted, and what would be instead; nothing is changed.",
        _offers,
        {200: Answer("The offers, the least change first.", json_of("Offers"))},
        problems=(Code.MALFORMED, Code.UNSATISFIABLE, Code.BEYOND_HORIZON),
        body=Body(schema_of(_FIELDS), _FIELDS),
    ),
)
