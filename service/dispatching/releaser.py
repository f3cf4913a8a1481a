"""Releaser: changes the Plan for capacity that the dispatcher finds unneeded or missed."""

from __future__ import annotations

import logging
from typing import Final

from dispatch.accounts.late_stages import Extension, with_more_time
from planner.plan.plan import Plan
from planner.plan.records.changes import Degrade, Note, Release
from planner.request import Request
from planner.reservations.state import LIVE
from rdl.compile.compiler import compile_expression
from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.expressions import Expression
from rdl.text.formatter import format_expression
from rdl.time_grid import duration_text
from service.commits.commands import Ask, Closure, Command, DispatchChange, Renegotiation
from service.commits.planner import Planner
from service.commits.screening import context_of
from service.problems import ApiProblemError, ProblemDocument

logger = logging.getLogger("agenda.service")

#: Error codes of the planner after which a retry may succeed.
_NO_TIME: Final = frozenset({"unavailable", "too_many"})


#: Places what a stage gets in addition: at once after what it has.
_AGENT: Final = "earliest"


def extension_of(plan: Plan, extension: Extension) -> Renegotiation | None:
    """Return the change of a reservation that gives a stage more time; None if it is gone."""
    known = plan.reservation(extension.reservation)
    if known is None or known.state not in LIVE:
        return None

    def extended(text: str) -> Expression:
        return with_more_time(read_source(text), extension.path, extension.by_ms)

    expression = extended(known.expression)
    try:
        graph = compile_expression(expression, context_of(plan, known.submitted_ms))
    except RdlError as error:
        logger.warning("the slots of %s cannot be extended: %s", extension.execution, error)
        return None
    request = Request(
        id=known.id,
        tenant=known.tenant,
        queue=known.queue,
        submitted_ms=known.submitted_ms,
        weight=known.weight,
        priority=known.priority,
        graph=graph,
        promise=known.promise,
        written=format_expression(extended(known.written)) if known.written else "",
    )
    return Renegotiation(Ask(expression, None, request, _AGENT, ""), known.revision)


class Releaser:
    """Closes reservations, releases rows and removes missed time.

    Changes that the planner cannot make now are dropped, but closing a reservation is retried
    later.

    Parameters
    ----------
    planner
        Makes the changes.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        #: Reservations still to be closed.
        self._left: set[str] = set()

    def close(self, reservation: str, tenure: int) -> None:
        """Close a reservation and release the rest of it; an ended one is not changed.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun; nothing was changed.
        """
        self._left.add(reservation)
        self.close_left(tenure)

    def close_left(self, tenure: int) -> None:
        """Close the reservations that the planner had no time for.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun; nothing was changed.
        """
        for reservation in sorted(self._left):
            if self._change(Closure(reservation, None, tenure), f"the rest of {reservation}"):
                self._left.discard(reservation)

    def release(self, change: Release, tenure: int) -> None:
        """Release rows; if the reservation has changed since, the next tick decides again.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun; nothing was changed.
        """
        self._change(DispatchChange(change, tenure), f"what {change.id} no longer needs")

    def miss(self, change: Degrade, tenure: int) -> None:
        """Remove time that passed without its work: the adapter plans it again.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun; nothing was changed.
        """
        self._change(DispatchChange(change, tenure), f"what {change.id} missed", "owed again")

    def report(self, change: Note, tenure: int) -> None:
        """Report that an entitlement passed unused, or the outcome of work in an engine.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun; nothing was changed.
        """
        self._change(DispatchChange(change, tenure), f"what happened to {change.id}", "reported")

    def extend(self, command: Renegotiation, extension: Extension) -> None:
        """Ask for more time for a stage; where the Plan has none, the log says why."""
        try:
            (answer,) = self._planner.change(command)
        except ApiProblemError as error:
            answer = error.document
        by = duration_text(extension.by_ms)
        if isinstance(answer, ProblemDocument):
            logger.warning("%s gets no %s more: %s", extension.execution, by, answer.detail)
        else:
            logger.info("%s gets %s more", extension.execution, by)

    def _change(self, command: Command, what: str, done: str = "released") -> bool:
        """Make a change; return False if the planner had no time for it."""
        try:
            self._planner.change(command)
        except ApiProblemError as error:
            logger.warning("%s is not %s: %s", what, done, error)
            return error.document.code not in _NO_TIME
        return True
