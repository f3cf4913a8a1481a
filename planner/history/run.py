"""One run of a recurring job: its containers over time, and as a row of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: The container of a history without container sizes: 1,000 millicores.
ONE_CORE: Final[Mapping[str, int]] = {"cpu": 1000}

#: Most buckets for the longest run.
_BUCKETS: Final = 64

#: Most steps of a profile; fewer are used if they add little work.
_STEPS: Final = 5
_SPARE: Final = 0.05
Widths = NDArray[np.float64]


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


def bucket_seconds(runs: Sequence[JobRun], step_s: int) -> int:
    """Return the length of a bucket: whole steps, and at most 64 buckets for the longest run."""
    longest = max(run.length_s for run in runs)
    return step_s * max(1, int(np.ceil(longest / (_BUCKETS * step_s))))


def widths_of(run: JobRun, bucket_s: float, time_factor: float = 1.0) -> Widths:
    """Return the largest number of containers of a run in each bucket.

    Parameters
    ----------
    run
        The run.
    bucket_s
        Seconds per bucket.
    time_factor
        Factor for all times of the run.

    Returns
    -------
    Shape ``(buckets,)``, up to the end of the run.
    """
    count = max(1, int(np.ceil(run.length_s * time_factor / bucket_s - 1e-9)))
    widths = np.zeros(count)
    began = 0.0
    for stretch in run.stretches:
        ended = began + stretch.seconds * time_factor
        first = min(count - 1, int(began / bucket_s + 1e-9))
        last = min(count, max(first + 1, int(np.ceil(ended / bucket_s - 1e-9))))
        widths[first:last] = np.maximum(widths[first:last], stretch.width)
        began = ended
    return widths


def table_of(rows: Sequence[Widths]) -> NDArray[np.float64]:
    """Return rows of several lengths as one table, shape ``(runs, buckets)``, padded with 0."""
    table = np.zeros((len(rows), max(row.size for row in rows)))
    for place, row in enumerate(rows):
        table[place, : row.size] = row
    return table


@dataclass(frozen=True, slots=True)
class WidthProfile:
    """An allocation over time.

    Attributes
    ----------
    bucket_s
        Seconds per bucket.
    widths
        Whole containers per bucket, shape ``(buckets,)``.
    """

    bucket_s: int
    widths: Widths

    @property
    def length_s(self) -> int:
        """Return seconds until its end."""
        return self.bucket_s * self.widths.size

    @property
    def work_s(self) -> float:
        """Return container-seconds allocated."""
        return float(self.widths.sum() * self.bucket_s)

    def holds(self, widths: Widths) -> bool:
        """Return whether it covers the widths of a run in every bucket."""
        if widths.size > self.widths.size and widths[self.widths.size :].any():
            return False
        shared = min(widths.size, self.widths.size)
        return bool((widths[:shared] <= self.widths[:shared] + 1e-9).all())

    def steps(self) -> list[tuple[int, int]]:
        """Return a cover of the profile by few steps: (buckets, containers) of each.

        Uses the fewest steps that add at most 5 % to its work, and at most 5. The cover has the
        least work for its number of steps, by dynamic programming over the start of the last step.
        """
        cost, begins = _covers(self.widths, min(_STEPS, self.widths.size))
        enough = cost[:, -1] <= self.widths.sum() * (1 + _SPARE)
        count = int(np.argmax(enough)) if enough.any() else cost.shape[0] - 1
        steps: list[tuple[int, int]] = []
        end = self.widths.size
        while end:
            begin = int(begins[count, end])
            steps.append((end - begin, int(self.widths[begin:end].max())))
            end, count = begin, count - 1
        return steps[::-1]


def _covers(widths: Widths, most: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the least area to cover each prefix, and the start of the last step.

    Both have shape ``(most, buckets + 1)``; row k is for k + 1 steps.
    """
    size = widths.size
    highest = np.zeros((size, size + 1))
    for begin in range(size):
        highest[begin, begin + 1 :] = np.maximum.accumulate(widths[begin:])
    lengths = np.arange(size + 1)[None, :] - np.arange(size)[:, None]
    area = np.where(lengths > 0, highest * lengths, np.inf)
    cost = np.full((most, size + 1), np.inf)
    begins = np.zeros((most, size + 1), np.int64)
    cost[0, 1:] = area[0, 1:]
    cost[:, 0] = 0.0
    for used in range(1, most):
        options = cost[used - 1, :size, None] + area
        begins[used] = options.argmin(axis=0)
        cost[used, 1:] = options.min(axis=0)[1:]
    return cost, begins


def whole(widths: Widths, bucket_s: int) -> WidthProfile:
    """Return a profile of whole containers, without empty buckets at its end."""
    rounded = np.ceil(widths - 1e-9)
    last = np.flatnonzero(rounded)
    return WidthProfile(bucket_s, rounded[: last[-1] + 1] if last.size else np.ones(1))
