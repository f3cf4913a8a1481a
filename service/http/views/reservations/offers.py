"""POST /v1/offers: the least changes with which a request would be accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from planner.placement import Code
from service.calls.reservations.offers import find_offers
from service.http.call import Call
from service.http.fields import Field, integer, schema_of
from service.http.route import Body, Documented, Route, json_of
from service.http.views.reservations.reservations import ASK, EXAMPLE
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

_FIELDS: Final[tuple[Field, ...]] = (
    *ASK,
    integer("most", "Largest number of offers.", 1, 10, default=3),
)


def _offers(runtime: Runtime, call: Call) -> Response:
    return Response(200, find_offers(runtime, call.body))


ROUTES: Final = (
    Route(
        "POST",
        "/v1/offers",
        "findOffers",
        "Tell whether a request would be accepted, why not, and what would be accepted instead.",
        _offers,
        {200: Documented("The offers, the least change first.", json_of("Offers"))},
        problems=(Code.MALFORMED,),
        body=Body(schema_of(_FIELDS), _FIELDS, examples={"a stage": EXAMPLE}),
    ),
)
