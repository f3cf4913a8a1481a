"""Draw the widths of a run against the prediction, over normalised time (Rayon, figure 13)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.history.prediction import LEAST_RUNS, predict
from planner.history.run import JobRun, WidthProfile, Widths, widths_of
from service.pictures.experiments import ExperimentPanel, PanelSeries


def last_run_panel(
    runs: Sequence[JobRun], confidence: float, step_s: int
) -> ExperimentPanel | None:
    """Return the last run of a job and the prediction from earlier runs; None if they are too few.

    Time is a fraction of the longer of the two, capacity a fraction of the largest width.
    """
    last = runs[-1]
    before = [run for run in runs[:-1] if run.ended_s <= last.began_s]
    if len(before) < LEAST_RUNS:
        return None
    profile = predict(before, confidence, step_s).profile
    actual = widths_of(last, profile.bucket_s)
    return prediction_panel(f"{last.job}: {len(before)} runs before", actual, profile)


def prediction_panel(title: str, actual: Widths, profile: WidthProfile) -> ExperimentPanel:
    """Return the panel of a run's widths and the predicted allocation."""
    size = max(actual.size, profile.widths.size)
    most = float(max(actual.max(), profile.widths.max()))
    series = [
        _curve("actual", actual, size, most),
        _curve("prediction", profile.widths, size, most),
    ]
    return ExperimentPanel(title, "normalized time", "required capacity", series)


def _curve(name: str, widths: Widths, size: int, most: float) -> PanelSeries:
    """Return widths as a step function that ends at zero."""
    padded = np.zeros(size)
    padded[: widths.size] = widths
    edges = np.arange(size + 1) / size
    x = np.repeat(edges, 2)[1:-1]
    return PanelSeries(name, [*map(float, x), 1.0], [*map(float, np.repeat(padded / most, 2)), 0.0])
