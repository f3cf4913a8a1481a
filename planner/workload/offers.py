"""Find offers for the refusals of a plan file on the finished plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from planner.agent import Agent
from planner.files.plan_document import PlanDocument
from planner.offers.search import HOPELESS, OfferSearch
from planner.plan.records.changes import UncompiledRequest
from planner.request import Request
from planner.workload.compile import CompiledWorkload
from planner.workload.plan import Planned
from rdl.compile.source import read_source
from rdl.expressions import Expression

#: Default number of offers per refusal, and the maximum number of refusals that get offers by
#: default: a search costs several admissions, and thousands of refusals are seldom read one by one.
DEFAULT_OFFERS: Final = 3
FEW_REFUSALS: Final = 20


def with_offers(
    planned: Planned,
    workload: CompiledWorkload,
    agent: Agent,
    most: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> PlanDocument:
    """Return the plan file with offers for each refusal that has any.

    Each single offer is acceptable in the plan file's version; two of them together may not be.

    Parameters
    ----------
    most
        Maximum number of offers per refusal; None means `DEFAULT_OFFERS` if at most `FEW_REFUSALS`
        requests were refused, else 0.
    stop
        Polled before each trial; True ends the search.
    """
    document = planned.document
    if most is None:
        most = DEFAULT_OFFERS if len(document.refusals) <= FEW_REFUSALS else 0
    if most == 0:
        return document
    search = OfferSearch.of(planned.plan, stop, [None, *(r.promise for r in workload.requests)])
    found = {
        asked.id: search.offers(asked, expression, agent, most)
        for asked, expression in _helpable(planned, workload)
    }
    refusals = tuple(
        {**refusal, "offers": list(found.get(refusal["id"], ()))} for refusal in document.refusals
    )
    return replace(document, refusals=refusals)


def _helpable(
    planned: Planned, workload: CompiledWorkload
) -> Iterator[tuple[Request | UncompiledRequest, Expression]]:
    """Yield every refused line that an offer may help, not malformed lines or duplicate ids."""
    for request, result in zip(workload.requests, planned.results, strict=True):
        if result.code is not None and result.code not in HOPELESS:
            yield request, request.graph.expression
    for one in workload.refusals:
        if one.code not in HOPELESS:
            yield one.request, read_source(one.line.source)
