"""How much faster a MapReduce job runs with more workers: what is true, and what is predicted.

A job of `n` workers takes ``T(n) = serial + work / n + setup * n`` seconds. The linear model knows
only `work`; a model fitted to past runs knows what they show (Omega, section 6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from bench.papers.cell.workload import F64, I64, CellJobs

#: Runs of a job that a scheduler remembers, at most; each job has had 1 to so many.
MOST_RUNS: Final = 8

#: Sigma of the logarithm of what makes two equal runs differ.
NOISE: Final = 0.1

#: Multiples of the workers asked for that past runs had.
_MULTIPLES: Final = (0.25, 0.5, 1.0, 1.0, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True)
class SpeedUpModel:
    """Seconds of a job by its workers: ``serial_s + work_s / n + setup_s * n``."""

    serial_s: float
    work_s: float
    setup_s: float

    def length_s(self, workers: float) -> float:
        """Return how long the job takes with some workers."""
        return self.serial_s + self.work_s / workers + self.setup_s * workers

    def best(self, least: int, most: int) -> int:
        """Return the fewest workers of ``[least, most]`` with which the job ends first.

        More workers than it asked for, `least`, are predicted to shorten it, or are not taken.
        """
        if self.work_s <= 0.0 or most <= least:
            return least
        if self.setup_s <= 0.0:
            return most
        turn = np.sqrt(self.work_s / self.setup_s)
        low = int(np.clip(np.floor(turn), least, most))
        high = min(low + 1, most)
        return low if self.length_s(low) <= self.length_s(high) else high


def fit_speed_up(workers: I64, lengths_s: F64) -> SpeedUpModel:
    """Fit a model to past runs: least squares of the relative error, no coefficient below 0.

    Runs of three and more counts of workers show all three coefficients; of two, what is serial and
    what is shared; runs of one count show nothing but the work, so that the model is linear.

    Parameters
    ----------
    workers, lengths_s
        int64[run], float64[run]: how many workers a run had, and how long it took.

    Raises
    ------
    ValueError
        If there is no run, the two differ in length, or a number is not above 0.
    """
    if len(workers) == 0 or len(workers) != len(lengths_s):
        raise ValueError(f"{len(workers)} counts of workers and {len(lengths_s)} lengths of runs")
    if workers.min() <= 0 or not (lengths_s.min() > 0 and np.isfinite(lengths_s).all()):
        raise ValueError("runs have workers and take a time above 0")
    counts = len(np.unique(workers))
    if counts == 1:
        return SpeedUpModel(0.0, float((lengths_s * workers).mean()), 0.0)
    from scipy.optimize import nnls

    n = workers.astype(np.float64)
    columns = np.stack([np.ones_like(n), 1.0 / n, n][: min(counts, 3)], axis=1)
    scale = np.abs(columns).max(axis=0)
    found, _ = nnls(columns / scale / lengths_s[:, None], np.ones_like(n))
    coefficients = [*(found / scale).tolist(), 0.0]
    return SpeedUpModel(coefficients[0], coefficients[1], coefficients[2])


def length_parts(serial: F64, setup: F64, times: F64) -> F64:
    """Return the part of its length that each job takes with `times` the workers asked for."""
    return serial + (1.0 - serial - setup) / times + setup * times


def workers_by_history(jobs: CellJobs, seed: int) -> I64:
    """Return int64[job]: the workers that each is predicted to run fastest with, by its past runs.

    Those are drawn: 1 to `MOST_RUNS` runs with 1/4 to 4 times the workers asked for, most of them
    with those asked for, whose lengths differ from the true ones by a noise of sigma `NOISE`.
    """
    rng = np.random.default_rng([seed, 2])
    found = jobs.useful.copy()
    for job in np.flatnonzero(jobs.useful > jobs.tasks).tolist():
        asked = int(jobs.tasks[job])
        runs = int(rng.integers(1, MOST_RUNS + 1))
        workers = np.maximum(1, np.rint(asked * rng.choice(_MULTIPLES, runs))).astype(np.int64)
        serial, setup = np.full(runs, jobs.serial[job]), np.full(runs, jobs.setup[job])
        lengths = length_parts(serial, setup, workers / asked) * jobs.length_s[job]
        lengths *= np.exp(NOISE * rng.standard_normal(runs))
        found[job] = fit_speed_up(workers, lengths).best(asked, int(jobs.useful[job]))
    return found
