"""What work costs: its share of the cluster times the price factor of each step it is held at."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from planner.cluster import Cluster
from planner.placement import PlacementResult, atoms_held
from planner.request import Request
from rdl.resources import Resources
from rdl.time_grid import TimeGrid


class PriceList:
    """The price factor of every step, ready to be summed over rows.

    Attributes
    ----------
    factors
        float64[horizon]: c_t, 0 or more.
    """

    __slots__ = ("_paid", "factors")

    def __init__(self, factors: NDArray[np.float64]) -> None:
        self.factors = factors
        self._paid = np.concatenate([[0.0], np.cumsum(factors)])

    def cost(
        self, held: Iterable[tuple[Resources, NDArray[np.int64]]], nominal: Resources
    ) -> float:
        """Return the sum over steps of bundles x dominant share x price factor.

        Parameters
        ----------
        held
            (bundle, int64[n, 3] rows) of every atom, one entry an occurrence.
        nominal
            Capacity that shares are taken of.

        Returns
        -------
        float
            In steps of the whole cluster at a factor of 1; outside the horizon all is free.
        """
        total, last = 0.0, len(self._paid) - 1
        for bundle, rows in held:
            ends = np.clip(rows[:, :2], 0, last)
            steps = self._paid[ends[:, 1]] - self._paid[ends[:, 0]]
            total += bundle.dominant_share(nominal) * float((steps * rows[:, 2]).sum())
        return total

    def cost_of(self, request: Request, result: PlacementResult, nominal: Resources) -> float:
        """Return what one answer costs; nothing where it is a refusal."""
        return self.cost(atoms_held(request.graph, result), nominal) if result.placed else 0.0


def prices_of(cluster: Cluster, grid: TimeGrid) -> PriceList | None:
    """Return the prices of a cluster, or None where it gives none."""
    return PriceList(cluster.price_factors(grid)) if cluster.prices else None
