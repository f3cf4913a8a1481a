"""The one measure of spread over seeds that experiments, benches and pictures show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


def spread_of(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation of some values; of one there is none."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


@dataclass(frozen=True, slots=True)
class Figure:
    """Mean over seeds and standard deviation between them (None for one seed)."""

    mean: float
    deviation: float | None


def figure_of(values: Sequence[float]) -> Figure:
    """Return mean and standard deviation over seeds."""
    return Figure(float(np.mean(values)), spread_of(values))


def figures_over_seeds(runs: Sequence[Mapping[str, float]]) -> dict[str, Figure]:
    """Return each figure over the runs of several seeds, which all have the same keys."""
    return {key: figure_of([run[key] for run in runs]) for key in runs[0]}


def figures_json(figures: Mapping[str, Figure]) -> dict[str, object]:
    """Return figures as plain JSON."""
    return {
        name: {"mean": figure.mean, "deviation": figure.deviation}
        for name, figure in figures.items()
    }
