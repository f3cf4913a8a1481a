"""A request under an id that is known: the same one again, an offer taken up, or another one."""

from __future__ import annotations

from planner.plan.plan import Plan
from planner.request import Request
from planner.reservations.reservation import Refusal, Reservation
from rdl.compile.source import read_source
from rdl.expressions import Expression, Offset
from rdl.meaning.shift import with_instants
from rdl.text.formatter import format_expression
from service.commits.changes.commands import Ask, ReservationAnswer
from service.windows import times_now


def same_reservation(plan: Plan, ask: Ask) -> ReservationAnswer | None:
    """Return the reservation that was made of the same request before, or None.

    Same are tenant, queue, weight, priority, and what the expression means, whatever its
    parts are called, with what the server added to it or without. What is only held is no
    reservation yet: it ends unless somebody accepts it.
    """
    request = ask.request
    found = plan.reservation(request.id)
    if found is None or plan.table.number_of(request.id) in plan.table.holds:
        return None
    level = request.promise or found.promise
    asked = (request.tenant, request.queue, request.weight, request.priority)
    known = (found.tenant, found.queue, found.weight, found.priority)
    if asked != known or level is not found.promise:
        return None
    if not _is_same(request, found):
        return None
    times = times_now(plan, request.id)
    return ReservationAnswer(found, plan.grid, plan.version, times, known=True)


def note_of_retry(plan: Plan, ask: Ask) -> str:
    """Return what the history says of a request that was refused and is asked again.

    It is empty where the id is new, or its refusal is of another request: the same expression, or
    one of the offers, of the same tenant and queue.
    """
    request = ask.request
    refusal = plan.refusal(request.id)
    if refusal is None or (refusal.tenant, refusal.queue) != (request.tenant, request.queue):
        return ""
    text = format_expression(request.graph.expression)
    if _is_same(request, refusal):
        return f"it was refused before ({refusal.code})"
    for offer in refusal.offers:
        kind = offer["change"]["kind"]
        if _is_offer(offer["expression"], text):
            return f"an offer ({kind}) in place of {refusal.expression}, refused ({refusal.code})"
    return ""


def _is_same(request: Request, known: Reservation | Refusal) -> bool:
    """Return whether a request asks for what is known, as planned or as submitted."""
    planned = request.graph.expression
    if known.expression == format_expression(planned) or read_source(known.expression) == planned:
        return True
    if not (request.written and known.written):
        return False
    return read_source(request.written) == read_source(known.written)


def _is_offer(offer: str, text: str) -> bool:
    """Return whether a request is an offer, or what that offer would be if sought again now.

    A window that counts from the submission has other times later, and so have its offers.
    """
    return offer == text or _without_times(offer) == _without_times(text)


def _without_times(text: str) -> Expression:
    return with_instants(read_source(text), lambda _: Offset(0), lambda _: Offset(1))
