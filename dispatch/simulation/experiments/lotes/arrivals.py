"""LoTES figures 6 and 7: when Google's tasks arrive, and of which class, hour by hour.

Classes are fitted to the first hours, as in the paper to the first day; every later task counts for
its nearest class. The paper shows a month, the trace at hand holds its first 19.6 hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dispatch.simulation.machine_level.traces import (
    GOOGLE_WINDOW_S,
    TraceJobs,
    read_google_tasks,
)
from lp.lotes.job_classes import fit_job_classes


@dataclass(frozen=True, slots=True)
class ArrivalTable:
    """Arrivals by hour.

    Attributes
    ----------
    at_start
        Tasks that were there when the trace begins.
    names, time_h, request, share
        The classes: mean time (h), mean request by resource, and share of the hours learnt from.
    arrived
        Tasks of each whole hour.
    shares
        What part of them is of each class, a list an hour.
    """

    learning_h: float
    at_start: int
    names: tuple[str, ...]
    time_h: tuple[float, ...]
    request: tuple[tuple[float, ...], ...]
    share: tuple[float, ...]
    arrived: tuple[int, ...]
    shares: tuple[tuple[float, ...], ...]


def lotes_arrivals(folder: Path, seed: int = 1, learning_h: float = 5.0) -> ArrivalTable:
    """Fit classes to the first hours of Google's trace, and count every hour's arrivals by class.

    Parameters
    ----------
    seed
        Of the clustering.

    Raises
    ------
    ValueError
        If the file lacks a column or holds a malformed row, or nothing arrives in those hours.
    """
    tasks = read_google_tasks(folder)
    later = tasks.after(0.0)
    first = float(later.arrival_h[0]) if later.jobs else 0.0
    learnt = later.sample(end_h=first + learning_h)
    classes = fit_job_classes(learnt, np.random.default_rng(seed))
    counted = _by_hour(later, classes.nearest(later.request), len(classes.names))
    arrived = counted.sum(axis=1)
    shares = counted / np.maximum(arrived, 1)[:, None]
    return ArrivalTable(
        learning_h,
        tasks.jobs - later.jobs,
        tuple(classes.names),
        tuple(classes.time_h.tolist()),
        tuple(tuple(row) for row in classes.request.tolist()),
        tuple(classes.share.tolist()),
        tuple(arrived.tolist()),
        tuple(tuple(row) for row in shares.tolist()),
    )


def _by_hour(jobs: TraceJobs, kinds: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Return tasks by whole hour of the window and by class, shape (H, K)."""
    hours = int(GOOGLE_WINDOW_S // 3600)
    found = np.zeros((hours, classes), dtype=np.int64)
    at = jobs.arrival_h.astype(np.int64)
    kept = at < hours
    np.add.at(found, (at[kept], kinds[kept]), jobs.weight[kept])
    return found
