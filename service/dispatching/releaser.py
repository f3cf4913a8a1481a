"""Releaser: tells the Plan what the dispatcher finds is not needed any more, or was missed."""

from __future__ import annotations

import logging

from planner.plan.records.changes import Degrade, Release
from service.commits.changes.commands import Closure, Command, MissedTime, RowRelease
from service.planning.planner import Planner
from service.problems import ApiProblemError

logger = logging.getLogger("agenda.service")


class Releaser:
    """Closes reservations, releases rows and takes back missed time.

    What the planner cannot do now is left as it is.

    Parameters
    ----------
    planner
        Makes the changes.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    def close(self, reservation: str, tenure: int) -> None:
        """Close a reservation: all that it still holds; one that is over stays as it is.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun; nothing was changed.
        """
        self._change(Closure(reservation, None, tenure), f"the rest of {reservation}")

    def release(self, change: Release, tenure: int) -> None:
        """Release rows; where the reservation has changed since, the next tick judges again.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun; nothing was changed.
        """
        self._change(RowRelease(change, tenure), f"what {change.id} no longer needs")

    def miss(self, change: Degrade, tenure: int) -> None:
        """Take back time that passed without its work: the adapter plans it again.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun; nothing was changed.
        """
        self._change(MissedTime(change, tenure), f"what {change.id} missed", "owed again")

    def _change(self, command: Command, what: str, done: str = "given back") -> None:
        try:
            self._planner.change(command)
        except ApiProblemError as error:
            logger.warning("%s is not %s: %s", what, done, error)
