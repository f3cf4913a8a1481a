"""POST /v1/offers: whether a request would be accepted, why not, and what would be instead."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from planner.admission import screen
from planner.agent import Agent, Limits
from planner.agents import agent_named
from planner.commit import Asked
from planner.offer_search import HOPELESS, OfferSearch
from planner.placement import Code, PlacementResult
from planner.request import Request
from planner.reservation import binding_to_json
from rdl.compiler import compile_expression
from rdl.errors import RdlError
from rdl.expressions import Expression
from rdl.formatter import format_expression
from rdl.source import read_source
from rdl.time_grid import TimeGrid
from service.api.fields import malformed
from service.problems import ApiError, problem_of_rdl
from service.runtime import Runtime
from service.use_cases import agent_of

#: Longest search for one call.
_SECONDS: Final = 5.0


def find_offers(runtime: Runtime, values: Mapping[str, Any]) -> dict[str, object]:
    """Return whether a request would be accepted, and if not, what stands in the way and offers.

    Searched on a snapshot; an offer sent back in the same version of the Plan is accepted.

    Parameters
    ----------
    values
        Fields of `service.api.offers`.

    Raises
    ------
    ApiProblemError
        For RDL that cannot be read, or an unknown agent; a request that no plan could satisfy is
        answered with offers all the same.
    """
    name = agent_of(runtime, values, "")
    submitted_ms = runtime.now_ms()
    until = time.perf_counter() + _SECONDS
    with runtime.reading() as plan:
        search = OfferSearch.of(plan, lambda: time.perf_counter() >= until)
    try:
        expression = read_source(values["rdl"])
        asked = _asked(runtime, values, submitted_ms, expression)
        refused = _refusal_of(runtime, asked, expression, search, agent_named(name))
    except RdlError as error:
        raise problem_of_rdl(error, "/rdl") from error
    if refused is not None and refused.code is Code.MALFORMED:
        raise malformed([ApiError(refused.detail)])
    found: Sequence[dict[str, Any]] = ()
    if refused is not None and refused.code not in HOPELESS:
        found = search.offers(asked, expression, agent_named(name), values["most"])
    return {
        "version": search.view.version,
        "accepted": refused is None,
        "refusal": None if refused is None else _refusal_json(refused, search.view.grid),
        "offers": list(found),
    }


def _asked(
    runtime: Runtime, values: Mapping[str, Any], submitted_ms: int, expression: Expression
) -> Asked:
    return Asked(
        values["id"] or runtime.new_id(),
        values["tenant"],
        values["queue"],
        submitted_ms,
        values["weight"],
        values["priority"],
        format_expression(expression),
    )


def _refusal_of(
    runtime: Runtime, asked: Asked, expression: Expression, search: OfferSearch, agent: Agent
) -> PlacementResult | None:
    """Return why a request is refused, or None.

    Raises
    ------
    RdlError
        If its expression is malformed.
    """
    try:
        graph = compile_expression(expression, search.context(asked.submitted_ms))
    except RdlError as error:
        if error.code == Code.MALFORMED:
            raise
        return PlacementResult(Code(error.code), str(error))
    request = Request(
        asked.id,
        asked.tenant,
        asked.queue,
        asked.submitted_ms,
        asked.weight,
        asked.priority,
        graph,
    )
    with runtime.reading() as plan:
        refused = screen(plan, request)
    if refused is None:
        refused = agent.plan([request], search.view, Limits())[0]
    return None if refused.placed else refused


def _refusal_json(refused: PlacementResult, grid: TimeGrid) -> dict[str, object]:
    binding = refused.binding
    return {
        "code": str(refused.code),
        "detail": refused.detail,
        "binding": None if binding is None else binding_to_json(binding, grid),
    }
