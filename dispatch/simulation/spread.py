"""The one measure of spread over seeds that experiments, benches and pictures show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def spread_of(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation of some values; of one there is none."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None
