"""One run of a recurring job: its containers over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

#: The container of a history without container sizes: 1,000 millicores.
ONE_CORE: Final[Mapping[str, int]] = {"cpu": 1000}


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time during which a run held the same number of containers.

    Attributes
    ----------
    seconds
        Length, above 0.
    width
        Containers held.
    """

    seconds: float
    width: int


@dataclass(frozen=True, slots=True)
class JobRun:
    """A completed run.

    Attributes
    ----------
    job
        The name that all runs of the recurring job share.
    began_s
        Its start, in seconds since 1970-01-01T00:00:00Z, or since the start of the trace.
    stretches
        Its containers from then on, in order.
    bundle
        Resources of one container, in millicores, MiB and units.
    """

    job: str
    began_s: float
    stretches: tuple[Stretch, ...]
    bundle: Mapping[str, int] = field(default_factory=lambda: dict(ONE_CORE))

    @property
    def length_s(self) -> float:
        """Return seconds from its start to its end."""
        return sum(stretch.seconds for stretch in self.stretches)

    @property
    def ended_s(self) -> float:
        """Return its end, in seconds as `began_s`."""
        return self.began_s + self.length_s

    @property
    def work_s(self) -> float:
        """Return its container-seconds."""
        return sum(stretch.seconds * stretch.width for stretch in self.stretches)

    @property
    def peak(self) -> int:
        """Return its largest number of containers."""
        return max(stretch.width for stretch in self.stretches)


def run_of_tasks(
    job: str, tasks: Sequence[tuple[float, float]], bundle: Mapping[str, int]
) -> JobRun:
    """Return a run from tasks with one container each.

    Parameters
    ----------
    job
        The name that all runs of the recurring job share.
    tasks
        Start and end of each task in seconds; at least one has a positive length.
    bundle
        Resources of one container.
    """
    held = [(began, ended, 1) for began, ended in tasks if ended > began]
    return JobRun(job, min(began for began, _, _ in held), stretches_of(held), dict(bundle))


def stretches_of(held: Iterable[tuple[float, float, int]]) -> tuple[Stretch, ...]:
    """Return the sum of the parts of a run, from the first start to the last end.

    Parameters
    ----------
    held
        Start, end and containers of each part; times in seconds, the end after the start.
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


def common_container(
    runs: Sequence[tuple[Sequence[Stretch], Mapping[str, int]]],
) -> tuple[dict[str, int], list[tuple[Stretch, ...]]]:
    """Return one container for several runs, and the stretches of each in such containers.

    Parameters
    ----------
    runs
        Stretches and container of each run.

    Returns
    -------
    bundle, stretches
        The largest amounts of any container, and stretches with the number of these containers that
        a run needs: a run of 8 containers of 1 core has 2 of 4 cores.
    """
    names = sorted({name for _, bundle in runs for name in bundle})
    common = {name: max(bundle.get(name, 0) for _, bundle in runs) for name in names}
    scaled = []
    for stretches, bundle in runs:
        shares = [(amount, common[name]) for name, amount in bundle.items() if amount] or [(1, 1)]
        scaled.append(
            tuple(
                Stretch(one.seconds, max(-(-one.width * own // whole) for own, whole in shares))
                for one in stretches
            )
        )
    return common, scaled


def runs_by_job(runs: Iterable[JobRun]) -> dict[str, list[JobRun]]:
    """Return the runs of each job in order of start, jobs by name.

    All runs of a job get containers of the same size.
    """
    jobs: dict[str, list[JobRun]] = {}
    for run in runs:
        jobs.setdefault(run.job, []).append(run)
    return {job: _in_one_container(jobs[job]) for job in sorted(jobs)}


def _in_one_container(runs: Sequence[JobRun]) -> list[JobRun]:
    bundle, scaled = common_container([(run.stretches, run.bundle) for run in runs])
    same = [
        replace(run, stretches=stretches, bundle=bundle)
        for run, stretches in zip(runs, scaled, strict=True)
    ]
    return sorted(same, key=lambda run: run.began_s)
