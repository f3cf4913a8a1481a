"""Missed jobs: time of a reservation that passed while people's own job still waited for it.

Such a job (`agenda sbatch`) is no execution: the engine that has it starts it, and all that is
known is whether it waits. A stretch is missed where every job for the reservation waits, the job
came in time for it, and

- it was over when the jobs were seen to wait: nothing of it was used (a job that was requeued
  begins anew, so it needs all again);
- it goes on, and the job was not yet let run in it: the dispatcher was away.

One that may run in a stretch that goes on is left alone: the engine may take its time to start it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dispatch.accounts.missed_change import may_miss, missed_change
from dispatch.accounts.stretches import HeldStretch, stretches_of
from planner.plan.plan import Plan
from planner.plan.records.changes import Degrade

#: How long a change that the Plan did not take is not asked for again.
_PAUSE_MS: Final = 10_000


class JobWait(NamedTuple):
    """A reservation all of whose jobs wait.

    Attributes
    ----------
    submitted_ms
        When the last of them came, in ms from the origin.
    may_run
        Whether all of them may run: then they are late by the engine's doing.
    seen_ms
        When they were seen to wait: what came after that is not known.
    """

    submitted_ms: int
    may_run: bool
    seen_ms: int


@dataclass(slots=True)
class MissedJobs:
    """Finds what jobs that wait have missed of what their reservations held."""

    _asked_ms: dict[str, int] = field(default_factory=dict)

    def due(self, plan: Plan, waits: Mapping[str, JobWait], now_ms: int) -> list[Degrade]:
        """Return what is to be taken out of the past of reservations, one change each.

        Parameters
        ----------
        waits
            By the reservation's id.
        now_ms
            In ms from the origin; stretches are judged up to the Plan's present step.
        """
        found: list[Degrade] = []
        for name, wait in sorted(waits.items()):
            if now_ms < self._asked_ms.get(name, now_ms - _PAUSE_MS) + _PAUSE_MS:
                continue
            number = plan.table.number_of(name)
            if number is None or not may_miss(plan, number):
                continue
            change = missed_change(plan, number, _missed(plan, number, wait))
            if change is not None:
                self._asked_ms[name] = now_ms
                found.append(change)
        return found


def _missed(plan: Plan, number: int, wait: JobWait) -> list[tuple[HeldStretch, int]]:
    """Return the stretches that a job has missed, and until when; none of a recurrence."""
    atoms, now_ms = plan.table.holding(number).atoms, plan.grid.ms(plan.now)
    if any("@" in atom.path for atom in atoms):
        return []
    found: list[tuple[HeldStretch, int]] = []
    for atom in atoms:
        for stretch in stretches_of(atom, plan.grid, plan.now):
            until_ms, late_ms = min(stretch.end_ms, now_ms), stretch.tolerance_ms
            came_late = wait.submitted_ms > stretch.start_ms + late_ms
            seen_ms = min(until_ms, wait.seen_ms)
            goes_on = stretch.end_ms > seen_ms
            waited_ms = seen_ms - max(stretch.start_ms, wait.submitted_ms)
            if not came_late and waited_ms >= late_ms and not (goes_on and wait.may_run):
                found.append((stretch, until_ms))
    return found
