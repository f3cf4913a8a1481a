"""Derive jobs from allocations: FIFO matching turns bundles into start and run times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lp.lotes.job_classes import fifo_leases
from rdl.resources import Resources


@dataclass(frozen=True, slots=True)
class JobGroup:
    """Equal jobs of one atom or component: arrival, bundle, label, run time and count."""

    arrival_h: float
    bundle: Resources
    label: str | None
    time_h: float
    count: float


def jobs_of_rows(
    bundle: Resources, label: str | None, rows: Sequence[Sequence[float]], step_s: float
) -> list[JobGroup]:
    """Return the jobs of one atom's rows ``[start_s, end_s, bundles]``, by FIFO matching.

    Raises
    ------
    ValueError
        If there are no rows.
    """
    first, last = min(row[0] for row in rows), max(row[1] for row in rows)
    leases = fifo_leases(_heights(rows, first, last, step_s), step_s / 3600)
    return [
        JobGroup(first / 3600 + arrival, bundle, label, time, count)
        for arrival, time, count in zip(
            leases.arrival_h.tolist(), leases.time_h.tolist(), leases.weight.tolist(), strict=True
        )
    ]


def _heights(
    rows: Sequence[Sequence[float]], first: float, last: float, step_s: float
) -> NDArray[np.int64]:
    held = np.zeros(round((last - first) / step_s), dtype=np.int64)
    for start, end, bundles in rows:
        held[round((start - first) / step_s) : round((end - first) / step_s)] += int(bundles)
    return held
