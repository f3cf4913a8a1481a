"""One run of a recurring job: what it held, over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

#: What a container is where a history does not say: a thousand millicores.
ONE_CORE: Final[Mapping[str, int]] = {"cpu": 1000}


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time during which a run held the same number of containers.

    Attributes
    ----------
    seconds
        How long, above 0.
    width
        Containers held.
    """

    seconds: float
    width: int


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run that ended.

    Attributes
    ----------
    job
        The name that all runs of the recurring job share.
    began_s
        When it began, in seconds since 1970-01-01T00:00:00Z, or since the zero of the trace.
    stretches
        What it held from then on, one after the other.
    bundle
        What one container is: amounts by resource, in millicores, MiB and units.
    """

    job: str
    began_s: float
    stretches: tuple[Stretch, ...]
    bundle: Mapping[str, int] = field(default_factory=lambda: dict(ONE_CORE))

    @property
    def length_s(self) -> float:
        """Return seconds from its begin to its end."""
        return sum(stretch.seconds for stretch in self.stretches)

    @property
    def ended_s(self) -> float:
        """Return when it ended."""
        return self.began_s + self.length_s

    @property
    def work_s(self) -> float:
        """Return container-seconds held."""
        return sum(stretch.seconds * stretch.width for stretch in self.stretches)

    @property
    def peak(self) -> int:
        """Return the most containers held at once."""
        return max(stretch.width for stretch in self.stretches)


def run_of_tasks(
    job: str, tasks: Sequence[tuple[float, float]], bundle: Mapping[str, int]
) -> JobRun:
    """Return the run whose tasks held one container each.

    Parameters
    ----------
    job
        The name that all runs of the recurring job share.
    tasks
        Begin and end of each task in seconds; at least one of them lasts.
    bundle
        What one container is.
    """
    held = [(began, ended, 1) for began, ended in tasks if ended > began]
    return JobRun(job, min(began for began, _, _ in held), stretches_of(held), dict(bundle))


def stretches_of(held: Iterable[tuple[float, float, int]]) -> tuple[Stretch, ...]:
    """Return what parts of a run held together, from the first begin to the last end.

    Parameters
    ----------
    held
        Begin and end of each part in seconds, the end later, and its containers.
    """
    changes: dict[float, int] = {}
    for began, ended, containers in held:
        changes[began] = changes.get(began, 0) + containers
        changes[ended] = changes.get(ended, 0) - containers
    width, stretches = 0, []
    for here, there in pairwise(sorted(changes)):
        width += changes[here]
        stretches.append(Stretch(there - here, width))
    return tuple(stretches)


def runs_by_job(runs: Iterable[JobRun]) -> dict[str, list[JobRun]]:
    """Return the runs of each job in order of their begins, jobs by name."""
    jobs: dict[str, list[JobRun]] = {}
    for run in runs:
        jobs.setdefault(run.job, []).append(run)
    return {job: sorted(jobs[job], key=lambda run: run.began_s) for job in sorted(jobs)}
