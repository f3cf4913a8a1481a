"""SlurmReader: jobs and nodes of a Slurm, by slurmrestd, or by commands while that is silent."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from dispatch.backends.slurm.control.errors import RestAwayError, SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode

logger = logging.getLogger("agenda.slurm")

#: Pauses before a slurmrestd that did not answer is asked again, s: they double.
_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 60.0

#: What slurmrestd failed to answer in so many s is asked of the commands at once; after a longer
#: wait the next look asks them.
_QUICK_S: Final = 1.0


class StateSource(Protocol):
    """Says what jobs and nodes there are."""

    def jobs(self) -> list[SlurmJob]:
        """Return the jobs that slurmctld knows."""
        ...

    def nodes(self) -> list[SlurmNode]:
        """Return all nodes."""
        ...


class SlurmReader:
    """Reads the state of a Slurm.

    Parameters
    ----------
    commands
        Slurm's commands.
    rest
        slurmrestd, which is asked first; None where there is none.
    answers
        Whether slurmrestd has just answered; else commands are asked first, and for a while after
        that, as one that hangs would let every first look fail.
    steady_s
        A clock that nobody sets.
    """

    def __init__(
        self,
        commands: StateSource,
        rest: StateSource | None = None,
        *,
        answers: bool = True,
        steady_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._commands = commands
        self._rest = rest
        self._steady_s = steady_s
        self._pause_s = 0.0 if answers else _PAUSE_S
        self._next_s: float | None = 0.0 if answers else None

    def read(self) -> tuple[list[SlurmJob], list[SlurmNode]]:
        """Return the jobs and the nodes.

        Raises
        ------
        SlurmAwayError
            If slurmctld does not answer, or slurmrestd took long not to.
        SlurmError
            If Slurm refuses to tell.
        """
        began_s = self._steady_s()
        if self._next_s is None:
            self._next_s = began_s + self._pause_s
        if self._rest is not None and began_s >= self._next_s:
            try:
                return self._ask(self._rest)
            except RestAwayError as error:
                self._put_off(error)
                if self._steady_s() - began_s > _QUICK_S:
                    raise
            except SlurmAwayError:
                raise
            except SlurmError as error:  # a token that ran out, say
                self._put_off(error)
        return self._commands.jobs(), self._commands.nodes()

    def _ask(self, rest: StateSource) -> tuple[list[SlurmJob], list[SlurmNode]]:
        found = rest.jobs(), rest.nodes()
        if self._pause_s:
            logger.warning("slurmrestd answers again")
        self._pause_s = 0.0
        return found

    def _put_off(self, error: SlurmError) -> None:
        """Let commands answer for a while."""
        if not self._pause_s:
            logger.warning("Slurm's commands are asked in the place of slurmrestd: %s", error)
        self._pause_s = min(max(_PAUSE_S, 2 * self._pause_s), _LONGEST_PAUSE_S)
        self._next_s = self._steady_s() + self._pause_s
