"""Precedence on shared state: with it, and without, as the load of a cell grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dispatch.simulation.cell.architecture import Decision, shared_state
from dispatch.simulation.cell.audit import audit_claims
from dispatch.simulation.cell.kernels.arrays import TRANSACTIONS
from dispatch.simulation.cell.simulator import CellRun, measure_cell, run_jobs
from dispatch.simulation.cell.workload import CELLS, DAY_S, draw_jobs

#: Seconds to decide about a service job.
SERVICE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class PrecedencePoint:
    """One run.

    Attributes
    ----------
    cell
        A name of `CELLS`.
    busier
        Batch jobs come so many times as often.
    above
        Whether service jobs have precedence over batch jobs, or both are equal.
    days
        Length of the run.
    """

    cell: str
    busier: float
    above: bool
    days: float = 1.0


def precedence_points(small: bool) -> Sequence[PrecedencePoint]:
    """Return cells, loads, and both rules; a quarter of a day of cell D where `small`."""
    cells, factors = (("D",), (1.0, 8.0)) if small else (("A", "B", "C"), (1.0, 2.0, 3.0, 4.0))
    return [
        PrecedencePoint(cell, factor, above, 0.25 if small else 1.0)
        for cell in cells
        for above in (False, True)
        for factor in factors
    ]


def run_precedence(point: PrecedencePoint, seed: int) -> dict[str, float]:
    """Run a point and return its figures.

    ``batch_placed_s`` and ``service_placed_s`` are mean times from submission until all tasks are
    placed, ``evictions`` those of a day, ``lost_h`` the hours of tasks that they lost in a day,
    ``lost`` these as a part of all that tasks ran, and ``breaches`` what an audit of all claims
    found against the policy.
    """
    mix = CELLS[point.cell].busier(point.busier)
    precedence = (0, 1) if point.above else (0, 0)
    architecture = replace(shared_state(Decision(SERVICE_S)), precedence=precedence)
    length_s = point.days * DAY_S
    run = run_jobs(mix, architecture, *draw_jobs(mix, length_s, seed), length_s, seed)
    found = measure_cell(run, architecture, length_s)
    batch, service = found.schedulers
    lost_s = found.batch.lost_task_s + found.service.lost_task_s
    return {
        "batch_wait_s": found.batch.wait_s,
        "service_wait_s": found.service.wait_s,
        "batch_placed_s": found.batch.placed_after_s,
        "service_placed_s": found.service.placed_after_s,
        "batch_busyness": batch.busyness,
        "busyness": service.busyness,
        "conflicts": service.conflict_fraction,
        "evictions": (found.batch.evicted + found.service.evicted) / point.days,
        "lost_h": lost_s / 3_600.0 / point.days,
        "lost": lost_s / _ran_s(run, length_s),
        "used": float(found.used.mean()),
        "breaches": float(len(audit_claims(run, architecture))),
    }


def _ran_s(run: CellRun, length_s: float) -> float:
    """Return the seconds that all tasks ran."""
    log, count = run.log, int(run.counts[TRANSACTIONS])
    tasks, begin_s = log.tasks[:count], log.begin_s[:count]
    claims = np.repeat(np.arange(count), tasks)
    end_s = log.end_s[claims]
    if len(log.precedence.level):
        evicted = log.precedence.evictor[: len(claims)] >= 0
        end_s = np.where(evicted, log.precedence.evicted_s[: len(claims)], end_s)
    return float((np.minimum(end_s, length_s) - begin_s[claims]).sum())
