"""The event loop: arrivals and ends over one scheduler, in order of time, priority, sequence.

An end comes before an arrival of the same instant, so that what is freed is seen. The loop knows
no random numbers and no clock; quantities may be fractions, and then its figures are exact.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bench.papers.cluster.baselines import Scheduler
from bench.papers.cluster.workload import Quantity, Submission, WorkModel
from dispatch.pool.claims import Grant

_END, _ARRIVAL = 0, 1


@dataclass(frozen=True, slots=True)
class SubmissionOutcome:
    """The outcome of one submission; times in seconds, None if it was rejected."""

    submission: Submission
    started: Quantity | None
    ended: Quantity | None

    @property
    def turnaround(self) -> Quantity:
        """Time from submission to end."""
        assert self.ended is not None
        return self.ended - self.submission.at

    @property
    def queuing_time(self) -> Quantity:
        """Time from submission to start."""
        assert self.started is not None
        return self.started - self.submission.at

    @property
    def slowdown(self) -> float:
        """Effective over nominal run time (the paper's sentence has it the other way round)."""
        assert self.started is not None
        assert self.ended is not None
        return float((self.ended - self.started) / self.submission.run)


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of the pool from `at` until the next sample."""

    at: float
    waiting: int
    running: int
    free: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What one simulation gave.

    Attributes
    ----------
    outcomes
        In order of submission.
    samples
        One an event, in order of time.
    events
        How many arrivals and ends there were.
    """

    outcomes: tuple[SubmissionOutcome, ...]
    samples: tuple[Sample, ...]
    events: int


@dataclass(slots=True)
class _Running:
    """The progress of one execution in service."""

    index: int
    core: int
    left: Quantity
    since: Quantity
    rate: int = 0
    version: int = 0


@dataclass(slots=True)
class _State:
    scheduler: Scheduler
    model: WorkModel
    submissions: Sequence[Submission]
    index_by_name: dict[str, int]
    ends: list[tuple[Quantity, int, int, str, int]] = field(default_factory=list)
    running: dict[str, _Running] = field(default_factory=dict)
    started: list[Quantity | None] = field(default_factory=list)
    ended: list[Quantity | None] = field(default_factory=list)
    sequence: int = 0
    waiting: int = 0


Observer = Callable[[float, Scheduler], None]


def simulate_cluster(
    submissions: Sequence[Submission],
    scheduler: Scheduler,
    model: WorkModel = WorkModel.EVERY,
    observer: Observer | None = None,
) -> SimulatedRun:
    """Run submissions to their end.

    Parameters
    ----------
    submissions
        In order of submission; names are unique.
    scheduler
        Empty; its total stays as it is.
    model
        How fast an application works.
    observer
        Called after every event with the time and the scheduler.

    Raises
    ------
    ValueError
        If submissions are not in order of time.
    """
    if any(one.at > other.at for one, other in pairwise(submissions)):
        raise ValueError("submissions are not in order of time")
    names = {one.claim.name: index for index, one in enumerate(submissions)}
    state = _State(scheduler, model, submissions, names)
    state.started = [None] * len(submissions)
    state.ended = [None] * len(submissions)
    samples: list[Sample] = []
    arrived = 0
    while arrived < len(submissions) or state.ends:
        now, is_arrival = _next(state, arrived)
        if is_arrival:
            _arrive(state, arrived, now)
            arrived += 1
        else:
            _end(state, now)
        in_service = len(state.running)
        samples.append(Sample(float(now), state.waiting, in_service, scheduler.free()))
        if observer is not None:
            observer(float(now), scheduler)
    pairs = zip(submissions, state.started, state.ended, strict=True)
    outcomes = tuple(SubmissionOutcome(one, started, ended) for one, started, ended in pairs)
    return SimulatedRun(outcomes, tuple(samples), len(samples))


def _next(state: _State, arrived: int) -> tuple[Quantity, bool]:
    """Return when the next event is and whether it is an arrival."""
    submissions = state.submissions
    if not state.ends:
        return submissions[arrived].at, True
    end = state.ends[0]
    if arrived < len(submissions) and (submissions[arrived].at, _ARRIVAL) < end[:2]:
        return submissions[arrived].at, True
    return end[0], False


def _arrive(state: _State, index: int, now: Quantity) -> None:
    submission = state.submissions[index]
    if not state.scheduler.can_ever_fit(submission.claim):
        return
    state.waiting += 1
    _apply(state, state.scheduler.arrive(submission.claim, float(now)), now)


def _end(state: _State, now: Quantity) -> None:
    _, _, _, name, _ = heapq.heappop(state.ends)
    progress = state.running.pop(name)
    state.ended[progress.index] = now
    _apply(state, state.scheduler.depart(name, float(now)), now)
    _drop_stale(state)


def _apply(state: _State, grants: Sequence[Grant], now: Quantity) -> None:
    """Account for the work done so far, and expect every changed end again."""
    for grant in grants:
        progress = state.running.get(grant.name)
        if progress is None:
            progress = _start(state, grant.name, now)
        progress.left -= progress.rate * (now - progress.since)
        progress.since = now
        progress.rate = state.model.rate(progress.core, sum(grant.granted))
        progress.version += 1
        state.sequence += 1
        end = now + max(progress.left, 0) / progress.rate
        heapq.heappush(state.ends, (end, _END, state.sequence, grant.name, progress.version))
    _drop_stale(state)


def _start(state: _State, name: str, now: Quantity) -> _Running:
    index = state.index_by_name[name]
    submission = state.submissions[index]
    core = sum(part.count for part in submission.claim.core)
    elastic = sum(part.count for part in submission.claim.elastic)
    progress = _Running(index, core, submission.run * state.model.rate(core, elastic), now)
    state.running[name] = progress
    state.started[index] = now
    state.waiting -= 1
    return progress


def _drop_stale(state: _State) -> None:
    """Drop expected ends that later grants have moved from the head of the heap."""
    while state.ends:
        _, _, _, name, version = state.ends[0]
        progress = state.running.get(name)
        if progress is not None and progress.version == version:
            return
        heapq.heappop(state.ends)
