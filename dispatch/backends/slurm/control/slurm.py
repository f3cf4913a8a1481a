"""Slurm as the backend sees it: settings, commands, and looks at jobs and nodes."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dispatch.backends.slurm.control.capabilities import Capabilities, find_capabilities
from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode
from dispatch.backends.slurm.control.settings import SlurmSettings

logger = logging.getLogger("agenda.slurm")

#: Looks that take so long are followed by a pause of this many times that.
_PAUSE_FACTOR: Final = 5

#: Of how many looks the quickest counts: one that was slow of itself lets no one wait.
_LOOKS: Final = 3

#: The longest pause between two looks, seconds.
_LONGEST_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Look:
    """Jobs by number and nodes by name, at one time."""

    jobs: dict[int, SlurmJob]
    nodes: dict[str, SlurmNode]


@dataclass(frozen=True, slots=True)
class Slurm:
    """One Slurm that was found to be able to do what is needed."""

    settings: SlurmSettings
    commands: SlurmCommands
    capabilities: Capabilities

    def look(self) -> Look:
        """Return its jobs and nodes.

        Raises
        ------
        SlurmAwayError
            If it does not answer.
        """
        jobs, nodes = self.commands.jobs(), self.commands.nodes()
        return Look({job.id: job for job in jobs}, {node.name: node for node in nodes})


class Lookout:
    """Looks at a Slurm, and not more often than it bears.

    Slow looks let the next one wait: five times as long as the quickest of the last three took,
    10 s at most. While Slurm does not answer the pauses double, from twice the least up to 10 s,
    however long a look tried: so what comes back is seen after half the time that it was away, or
    10 s.

    Parameters
    ----------
    slurm
        Is looked at.
    steady_s
        A clock that no one sets.
    """

    def __init__(self, slurm: Slurm, steady_s: Callable[[], float] = time.monotonic) -> None:
        self._slurm = slurm
        self._steady_s = steady_s
        self._next_s = 0.0
        self._failures = 0
        self._took_s: deque[float] = deque(maxlen=_LOOKS)

    @property
    def is_silent(self) -> bool:
        """Whether Slurm did not answer when it was asked last."""
        return self._failures > 0

    def look(self) -> Look | None:
        """Return what there is, or None if it is too early, or Slurm does not answer."""
        began_s = self._steady_s()
        if began_s < self._next_s:
            return None
        try:
            found = self._slurm.look()
        except SlurmError as error:
            self.note_silence(error)
            return None
        if self._failures:
            logger.warning("Slurm answers again")
        self._failures = 0
        self._took_s.append(self._steady_s() - began_s)
        self._pause(max(self._slurm.settings.poll_s, _PAUSE_FACTOR * min(self._took_s)))
        return found

    def note_silence(self, error: SlurmError) -> None:
        """Count something that Slurm did not answer as a look that failed."""
        self._failures += 1
        if self._failures == 1:
            logger.warning("Slurm does not answer; what runs continues: %s", error)
        self._pause(self._slurm.settings.poll_s * 2 ** min(self._failures, 10))

    def hurry(self) -> None:
        """Look at the next call: something was changed.

        Where a look takes longer than the pause between two, after as long as it takes.
        """
        if self._failures:
            return
        took_s = min(self._took_s, default=0.0)
        slow_s = took_s if took_s > self._slurm.settings.poll_s else 0.0
        self._next_s = min(self._next_s, self._steady_s() + slow_s)

    def _pause(self, pause_s: float) -> None:
        self._next_s = self._steady_s() + min(pause_s, _LONGEST_S)


def open_slurm(settings: SlurmSettings) -> Slurm:
    """Return a Slurm that can do what is needed.

    Raises
    ------
    SlurmError
        With everything that is missing.
    """
    commands = SlurmCommands()
    found = find_capabilities(settings, commands)
    for warning in found.warnings:
        logger.warning("%s", warning)
    return Slurm(settings, commands, found)
