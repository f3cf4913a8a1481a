"""The distributions of Zoe's workload, as figure 2 of the journal draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dispatch.simulation.cluster.generator import ZoeWorkload, zoe_workload
from dispatch.simulation.cluster.workload import Submission

Floats: TypeAlias = NDArray[np.float64]

#: Parts of a group whose values are told; the first and the last are its range.
PARTS: Final = (0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)

#: Panels of figure 2, with units.
METRICS: Final = (
    "time between arrivals, s",
    "run time, s",
    "cpu of a component, cores",
    "memory of a component, MiB",
    "core components",
    "elastic components",
)

#: What the journal says of each range (3.1).
CLAIMS: Final[Mapping[str, str]] = {
    METRICS[0]: "bursts, and pauses between them",
    METRICS[1]: "few dozen seconds to several weeks",
    METRICS[2]: "few millicores to 6 cores",
    METRICS[3]: "few MB to a few dozens of GB",
    METRICS[4]: "rigid: to a thousand",
    METRICS[5]: "batch: to thousands; interactive: to hundreds",
}

ALL: Final = "all"

#: Metric and group -> the value at each of `PARTS`.
WorkloadShape: TypeAlias = dict[tuple[str, str], Floats]


def workload_shape(options: ZoeWorkload, seed: int) -> WorkloadShape:
    """Return the quantiles of every metric, by group; times between arrivals are of all."""
    submissions = zoe_workload(options, np.random.default_rng(seed))
    found: WorkloadShape = {}
    gaps = np.diff([float(one.at) for one in submissions])
    found[METRICS[0], ALL] = np.quantile(gaps, PARTS)
    for label in sorted({one.label for one in submissions}):
        own = [one for one in submissions if one.label == label]
        for metric, values in zip(METRICS[1:], _columns(own), strict=True):
            found[metric, label] = np.quantile(values, PARTS)
    return found


def _columns(submissions: Sequence[Submission]) -> list[list[float]]:
    """Return the values of each metric but the first, one an application."""
    parts = [one.claim.core[0] for one in submissions]
    return [
        [float(one.run) for one in submissions],
        [part.amounts[0] / 1000 for part in parts],
        [float(part.amounts[1]) for part in parts],
        [float(part.count) for part in parts],
        [float(sum(part.count for part in one.claim.elastic)) for one in submissions],
    ]
