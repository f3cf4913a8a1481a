"""MapReduce jobs whose workers a model chooses: the linear one, and one fitted to past runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dispatch.simulation.cell.architecture import Decision, Growth, shared_state
from dispatch.simulation.cell.simulator import simulate_cell
from dispatch.simulation.cell.workload import CELLS

#: Largest parts of a job's length that are serial, and that set up the workers asked for.
SERIAL: Final = 0.3
SETUP: Final = 0.05

#: Parts of the jobs whose speed-ups are told.
QUANTILES: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One run.

    Attributes
    ----------
    cell
        A name of `CELLS`.
    linear
        Whether jobs are as the linear model has them; else parts of them, up to `SERIAL` and
        `SETUP`, are serial and set up workers.
    growth, fitted
        Policy, and which model says how many workers shorten a job.
    days
        Length of the run.
    """

    cell: str
    linear: bool
    growth: Growth
    fitted: bool
    days: float = 1.0


def history_points(small: bool) -> Sequence[HistoryPoint]:
    """Return cells, worlds, policies and models; a quarter of a day of cell D where `small`."""
    cells = ("D",) if small else ("A", "C", "D")
    found = []
    for cell in cells:
        for linear in (False, True):
            for growth in Growth:
                models = (False,) if growth is Growth.NONE else (False, True)
                found += [
                    HistoryPoint(cell, linear, growth, fitted, 0.25 if small else 1.0)
                    for fitted in models
                ]
    return found


def run_history(point: HistoryPoint, seed: int) -> dict[str, float]:
    """Run a point and return its figures.

    ``faster`` and ``slower`` are the parts of the MapReduce jobs that take less and more time than
    with the workers that they asked for, ``speed_up_80`` is what four fifths do not pass, and
    ``used 3`` the part of the cell's cores that is held after three hours.
    """
    serial, setup = (0.0, 0.0) if point.linear else (SERIAL, SETUP)
    mix = CELLS[point.cell].mapreduce(serial=serial, setup=setup)
    architecture = replace(shared_state(Decision()), growth=point.growth, fitted=point.fitted)
    found = simulate_cell(mix, architecture, point.days, seed)
    quantiles = np.quantile(found.speed_ups, QUANTILES).tolist()
    return {
        "faster": float((found.speed_ups > 1.0 + _SAME).mean()),
        "slower": float((found.speed_ups < 1.0 - _SAME).mean()),
        **{f"speed_up_{100 * q:g}": at for q, at in zip(QUANTILES, quantiles, strict=True)},
        "used": float(found.used.mean()),
        "used_deviation": float(found.used.std()),
        **{f"used {hour}": part for hour, part in enumerate(found.used.tolist())},
    }


#: What rounding makes of a job that is neither faster nor slower.
_SAME: Final = 1e-9
