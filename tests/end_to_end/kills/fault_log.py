"""What was taken away from a promise and when: by the log of who took it, and Slurm's accounting.

The rule: a promise may be broken only where its window had no *calm stretch* as long as its lease
and `REACTION_S` together. Calm is the time in which the server and slurmctld were there, and no run
for the promise was under way that a fault of its node ended; that slurmdbd was unavailable is no
excuse. A run that was asked of a node that was down is under way from then on: Slurm does not
know it yet. And its owner must have been notified. Nothing that the server says of itself counts as
time that was taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dispatch.backends.slurm.control.records import SlurmJob

#: What may pass from the end of a fault until promised work runs again, s: a dispatcher begins to
#: lead, looks at Slurm, finds what was missed and plans it, and Slurm starts a job.
REACTION_S: Final = 8

#: A silent node is lost after 6 s, and its runs end as much later than the fault.
_SILENT_S: Final = 10

#: the current allocations above every promise.
_SHARED: Final = frozenset({"server", "slurmctld"})


@dataclass(frozen=True, slots=True)
class Absence:
    """Something (``server``, a daemon that is not a node's, or a node) that was away, Unix time."""

    what: str
    since_s: float
    until_s: float


def longest_calm_s(
    window: tuple[float, float], absences: Iterable[Absence], runs: Sequence[SlurmJob]
) -> float:
    """Return the longest calm stretch of the window of a promise, s.

    Parameters
    ----------
    window
        From when to when it could be kept, Unix time.
    runs
        All that ran for it.
    """
    begin_s, end_s = window
    away = sorted(
        (max(since_s, begin_s), min(until_s, end_s))
        for since_s, until_s in _troubles(list(absences), runs)
        if until_s > begin_s and since_s < end_s
    )
    longest_s, calm_since_s = 0.0, begin_s
    for since_s, until_s in away:
        longest_s = max(longest_s, since_s - calm_since_s)
        calm_since_s = max(calm_since_s, until_s)
    return max(longest_s, end_s - calm_since_s)


def _troubles(absences: Sequence[Absence], runs: Sequence[SlurmJob]) -> list[tuple[float, float]]:
    """Return from when to when a promise could not be worked on."""
    found = [(one.since_s, one.until_s) for one in absences if one.what in _SHARED]
    nodes = {name for run in runs for name in run.nodes}
    of_nodes = [one for one in absences if one.what in nodes]
    for run in runs:
        if not run.started_s or run.state == "COMPLETED":
            continue
        ended_s = run.ends_s or run.started_s
        asked_away = any(one.since_s <= run.submitted_s <= one.until_s for one in of_nodes)
        since_s = run.submitted_s if asked_away else run.started_s
        found += [
            (float(since_s), float(ended_s))
            for one in of_nodes
            if one.since_s <= ended_s and one.until_s + _SILENT_S >= run.started_s
        ][:1]
    return found
