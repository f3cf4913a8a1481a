"""Offers for the refusals of a plan file, sought on the finished plan."""

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

#: Offers in each refusal if no number is given, and the most refusals that then get any: a
#: search costs several admissions, and anyone who refuses thousands seldom reads them one by one.
DEFAULT_OFFERS: Final = 3
FEW_REFUSALS: Final = 20


def with_offers(
    planned: Planned,
    workload: CompiledWorkload,
    agent: Agent,
    most: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> PlanDocument:
    """Return the plan file with offers in each refusal that any can help.

    Each offer alone is accepted in the version of the plan file; two of them together may not be.

    Parameters
    ----------
    most
        Most offers in one refusal; None is `DEFAULT_OFFERS` where at most `FEW_REFUSALS` requests
        were refused, else none.
    stop
        Asked before each trial; once it is True nothing more is tried.
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
    """Yield every refused line that an offer may help: not what is malformed or taken."""
    for request, result in zip(workload.requests, planned.results, strict=True):
        if result.code is not None and result.code not in HOPELESS:
            yield request, request.graph.expression
    for one in workload.refusals:
        if one.code not in HOPELESS:
            yield one.request, read_source(one.line.source)
