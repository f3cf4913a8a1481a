"""Points that are run once a seed: their figures as means and spreads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from dispatch.simulation.spread import Figure, figures_over_seeds
from service.cli.experiments.effort import ExperimentEffort

Point = TypeVar("Point")


def over_seeds(
    effort: ExperimentEffort,
    points: Sequence[Point],
    run: Callable[[Point, int], Mapping[str, float]],
    own: tuple[int, ...] = (1, 2, 3),
) -> dict[Point, Mapping[str, Figure]]:
    """Return the figures of each point over the seeds; of a stopped run, those that are whole.

    Parameters
    ----------
    run
        Function of a module, of a point and a seed.
    own
        Seeds to run where none are asked for.

    Raises
    ------
    CliError
        If not even the first is done.
    """
    seeds = effort.seeds_or(own)
    found = effort.parts([partial(run, point, seed) for point in points for seed in seeds])
    each = len(seeds)
    whole = len(found) // each
    return {
        point: figures_over_seeds(found[place * each : (place + 1) * each])
        for place, point in enumerate(points[:whole])
    }
