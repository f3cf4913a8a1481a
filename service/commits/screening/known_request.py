"""A request under an id that is known: the same one again, an offer taken up, or another one."""

from __future__ import annotations

from planner.plan.plan import Plan
from planner.reservations.reservation import Refusal
from rdl.text.formatter import format_expression
from service.commits.changes.commands import Ask, ReservationAnswer


def same_reservation(plan: Plan, ask: Ask) -> ReservationAnswer | None:
    """Return the reservation that was made of the same request before, or None.

    Same are tenant, queue, weight, priority, flags, and the canonical text of the expression. What
    is only held is no reservation yet: it ends unless somebody accepts it.
    """
    request = ask.request
    found = plan.reservation(request.id)
    if found is None or plan.table.number_of(request.id) in plan.table.holds:
        return None
    level = request.promise or found.promise
    asked = (request.tenant, request.queue, request.weight, request.priority, request.creditable)
    known = (found.tenant, found.queue, found.weight, found.priority, found.creditable)
    if asked != known or level is not found.promise:
        return None
    if found.expression != format_expression(ask.expression):
        return None
    return ReservationAnswer(found, plan.grid, plan.version, known=True)


def note_of_retry(plan: Plan, ask: Ask) -> str:
    """Return what the history says of a request that was refused and is asked again.

    It is empty where the id is new, or its refusal is of another request: the same expression, or
    one of the offers, of the same tenant and queue.
    """
    request = ask.request
    refusal = plan.refusal(request.id)
    if refusal is None or (refusal.tenant, refusal.queue) != (request.tenant, request.queue):
        return ""
    text = format_expression(ask.expression)
    if text == refusal.expression:
        return f"it was refused before ({refusal.code})"
    return _note_of_offer(refusal, text)


def _note_of_offer(refusal: Refusal, text: str) -> str:
    for offer in refusal.offers:
        if offer["expression"] == text:
            kind = offer["change"]["kind"]
            return f"an offer ({kind}) in place of {refusal.expression}, refused ({refusal.code})"
    return ""
