"""Slurm for the backend: settings, commands, and snapshots of jobs and nodes."""

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

#: Pause after a snapshot as a multiple of the time it took.
_PAUSE_FACTOR: Final = 5

#: Number of recent snapshots of which the quickest counts, so that a single slow one does not cause
#: a long pause.
_LOOKS: Final = 3

#: Longest pause between two snapshots, seconds.
_LONGEST_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Look:
    """A snapshot: jobs by id and nodes by name."""

    jobs: dict[int, SlurmJob]
    nodes: dict[str, SlurmNode]


@dataclass(frozen=True, slots=True)
class Slurm:
    """A Slurm that has all required capabilities."""

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
    """Takes snapshots of a Slurm, not more often than its load allows.

    The pause after a snapshot is at least five times the quickest of the last three, at most 10 s.
    While Slurm does not answer, the pauses double, from twice the least up to 10 s, whatever the
    time of an attempt: recovery is noticed after half the time of the outage, or 10 s.

    Parameters
    ----------
    slurm
        The Slurm to read.
    steady_s
        Monotonic clock.
    """

    def __init__(self, slurm: Slurm, steady_s: Callable[[], float] = time.monotonic) -> None:
        self._slurm = slurm
        self._steady_s = steady_s
        self._next_s = 0.0
        self._failures = 0
        self._took_s: deque[float] = deque(maxlen=_LOOKS)

    @property
    def is_silent(self) -> bool:
        """Whether Slurm did not answer the last command."""
        return self._failures > 0

    def look(self) -> Look | None:
        """Return a snapshot, or None if it is too early or Slurm does not answer."""
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
        """Count a command without an answer as a failed snapshot."""
        self._failures += 1
        if self._failures == 1:
            logger.warning("Slurm does not answer; what runs continues: %s", error)
        self._pause(self._slurm.settings.poll_s * 2 ** min(self._failures, 10))

    def hurry(self) -> None:
        """Take a snapshot at the next call, because something was changed.

        If a snapshot takes longer than the least pause, wait for that time first.
        """
        if self._failures:
            return
        took_s = min(self._took_s, default=0.0)
        slow_s = took_s if took_s > self._slurm.settings.poll_s else 0.0
        self._next_s = min(self._next_s, self._steady_s() + slow_s)

    def _pause(self, pause_s: float) -> None:
        self._next_s = self._steady_s() + min(pause_s, _LONGEST_S)


def open_slurm(settings: SlurmSettings) -> Slurm:
    """Return a Slurm with all required capabilities.

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
