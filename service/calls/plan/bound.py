"""How much more any plan of the same requests could hold: alone, and beside an answer."""

from __future__ import annotations

import logging
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from planner.agent import BoundError
from service.response import Response

if TYPE_CHECKING:
    from service.runtime import Runtime

logger = logging.getLogger("agenda.bound")

#: The member of an answer that holds the bound of the Plan.
_MEMBER: Final = "plan_bound"


def with_bound(runtime: Runtime, response: Response) -> Response:
    """Return an admission, or a refusal, with the bound of the Plan that shows it.

    What is promised is on disk by now: where no bound can be found the member is null.
    """
    if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return response
    body: dict[str, Any] = msgspec.json.decode(response.payload())
    if response.status >= HTTPStatus.BAD_REQUEST and "refusal" not in body:
        return response
    return replace(response, body=body | {_MEMBER: _found(runtime)})


def _found(runtime: Runtime) -> dict[str, Any] | None:
    try:
        return runtime.bounds.newest().to_json()
    except BoundError:
        logger.exception("a bound lies below the Plan: it is left out")
        return None
