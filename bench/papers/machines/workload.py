"""Streams of jobs: chunks in order of arrival, drawn from distributions or read from a trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lp.lotes.instance import JobClasses

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class JobChunk:
    """Jobs in order of arrival.

    Attributes
    ----------
    arrival_h
        Shape (m,), not descending, not before the chunk that came before.
    request
        Shape (m, L).
    hours
        Processing time on a machine of speed one, shape (m,).
    job_class
        Shape (m,).
    """

    arrival_h: Floats
    request: Floats
    hours: Floats
    job_class: NDArray[np.int32]

    @classmethod
    def of(
        cls, arrival_h: Floats, request: Floats, hours: Floats, job_class: NDArray[np.integer]
    ) -> JobChunk:
        """Check shapes and order.

        Raises
        ------
        ValueError
            If shapes disagree, arrivals descend, or a number is negative or not finite.
        """
        count = arrival_h.size
        shapes = request.shape[0], hours.shape, job_class.shape
        if shapes != (count, (count,), (count,)):
            raise ValueError(f"{count} arrivals, but requests, hours and classes of {shapes}")
        for values, what in ((arrival_h, "arrival_h"), (request, "request"), (hours, "hours")):
            wrong = np.argwhere(~(np.isfinite(values) & (values >= 0)))
            if wrong.size:
                raise ValueError(f"{what}[{int(wrong[0, 0])}]: expected a finite number >= 0")
        if (np.diff(arrival_h) < 0).any():
            at = int(np.argmax(np.diff(arrival_h) < 0)) + 1
            raise ValueError(f"arrival_h[{at}] is before the arrival ahead of it")
        return cls(
            np.ascontiguousarray(arrival_h, dtype=np.float64),
            np.ascontiguousarray(request, dtype=np.float64),
            np.ascontiguousarray(hours, dtype=np.float64),
            np.ascontiguousarray(job_class, dtype=np.int32),
        )


class Workload(Protocol):
    """A stream of jobs."""

    @property
    def resources(self) -> int:
        """Number of resources."""
        ...

    @property
    def classes(self) -> int:
        """Number of classes."""
        ...

    def chunks(self, rng: np.random.Generator) -> Iterator[JobChunk]:
        """Chunks in order of time; equal generators give equal streams."""
        ...


@dataclass(frozen=True, slots=True)
class PoissonWorkload:
    """Poisson arrivals of job classes (LoTES section 5.4).

    Attributes
    ----------
    rate_per_h
        Total arrival rate.
    horizon_h
        No job arrives at or after this time.
    variation
        Coefficient of variation of requests: Gaussian, cut to [0, 1] by drawing again.
    exponential
        Exponential processing times; otherwise each takes its class's mean.
    """

    job_classes: JobClasses
    rate_per_h: float
    horizon_h: float
    variation: float = 0.5
    exponential: bool = True
    chunk: int = 65_536

    @property
    def resources(self) -> int:
        """Number of resources."""
        return int(self.job_classes.request.shape[1])

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.job_classes.share.size)

    def chunks(self, rng: np.random.Generator) -> Iterator[JobChunk]:
        """Chunks of at most `chunk` jobs until the horizon."""
        now = 0.0
        while now < self.horizon_h:
            arrival = now + np.cumsum(rng.exponential(1 / self.rate_per_h, self.chunk))
            now = float(arrival[-1])
            arrival = arrival[arrival < self.horizon_h]
            kind = rng.choice(self.classes, size=arrival.size, p=self.job_classes.share)
            mean = self.job_classes.request[kind]
            hours = self.job_classes.time_h[kind]
            if self.exponential:
                hours = hours * rng.exponential(1.0, arrival.size)
            request = truncated_normal(mean, self.variation, rng)
            yield JobChunk.of(arrival, request, hours, kind)


def truncated_normal(mean: Floats, variation: float, rng: np.random.Generator) -> Floats:
    """Gaussian draws of the given means and coefficient of variation, cut to [0, 1].

    What falls outside is drawn again, so the truncated mean is above the nominal one: by 2.8 % at
    a coefficient of 0.5.
    """
    drawn = mean * (1 + variation * rng.standard_normal(mean.shape))
    while True:
        outside = (drawn < 0) | (drawn > 1)
        if not outside.any():
            return np.asarray(drawn)
        again = mean[outside] * (1 + variation * rng.standard_normal(int(outside.sum())))
        drawn[outside] = again


@dataclass(frozen=True, slots=True)
class TraceWorkload:
    """Jobs of a trace, classified beforehand."""

    jobs: JobChunk
    classes: int
    chunk: int = 65_536

    @property
    def resources(self) -> int:
        """Number of resources."""
        return int(self.jobs.request.shape[1])

    def chunks(self, rng: np.random.Generator) -> Iterator[JobChunk]:
        """The trace in pieces; the generator is not used."""
        for start in range(0, self.jobs.arrival_h.size, self.chunk):
            part = slice(start, start + self.chunk)
            yield JobChunk(
                self.jobs.arrival_h[part],
                self.jobs.request[part],
                self.jobs.hours[part],
                self.jobs.job_class[part],
            )
