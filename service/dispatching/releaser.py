"""Releaser: tells the Plan what the dispatcher finds is not needed any more, or was missed."""

from __future__ import annotations

import logging
from typing import Final

from planner.plan.records.changes import Degrade, Note, Release
from service.commits.commands import (
    Closure,
    Command,
    DispatchChange,
)
from service.commits.planner import Planner
from service.problems import ApiProblemError

logger = logging.getLogger("agenda.service")

#: Codes of a planner that may do later what it does not do now.
_NO_TIME: Final = frozenset({"unavailable", "too_many"})


class Releaser:
    """Closes reservations, releases rows and takes back missed time.

    What the planner cannot do now is left as it is; a reservation that it had no time to close is
    closed later.

    Parameters
    ----------
    planner
        Makes the changes.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        #: Reservations that are to be closed.
        self._left: set[str] = set()

    def close(self, reservation: str, tenure: int) -> None:
        """Close a reservation: all that it still holds; one that is over stays as it is.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun; nothing was changed.
        """
        self._left.add(reservation)
        self.close_left(tenure)

    def close_left(self, tenure: int) -> None:
        """Close what was to be closed when the planner had no time.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun; nothing was changed.
        """
        for reservation in sorted(self._left):
            if self._change(Closure(reservation, None, tenure), f"the rest of {reservation}"):
                self._left.discard(reservation)

    def release(self, change: Release, tenure: int) -> None:
        """Release rows; where the reservation has changed since, the next tick judges again.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun; nothing was changed.
        """
        self._change(DispatchChange(change, tenure), f"what {change.id} no longer needs")

    def miss(self, change: Degrade, tenure: int) -> None:
        """Take back time that passed without its work: the adapter plans it again.

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

    def _change(self, command: Command, what: str, done: str = "released") -> bool:
        """Make a change; return False if the planner had no time for it."""
        try:
            self._planner.change(command)
        except ApiProblemError as error:
            logger.warning("%s is not %s: %s", what, done, error)
            return error.document.code not in _NO_TIME
        return True
