"""Move machines between bins if rounding cost too much (LoTES section 4.2 only rounds).

The paper rounds thousands of machines over a few bins and loses nothing. With hundreds of classes
bins get fractions of machines, and a class whose fractions are all rounded down bounds lambda, at
zero if it has no other bin. Moves inside a configuration return machines to such a class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lp.result import FloatArray

_MOST_MOVES = 20_000
_LEAST_GAIN = 1e-12


@dataclass(frozen=True, slots=True)
class BinFlows:
    """The contribution of a machine of each bin to the lambda of each class: N_ijk mu_jk /
    alpha_k, sparse.

    Attributes
    ----------
    configuration
        Configuration of each bin, shape (B,).
    bin_of, class_of, flow
        Bin, class (0 to `classes`) and lambda of each entry, in order of the bins, shape (E,).
    """

    configuration: NDArray[np.int32]
    bin_of: NDArray[np.int64]
    class_of: NDArray[np.int64]
    flow: FloatArray
    classes: int

    def rates(self, machines: NDArray[np.int64]) -> FloatArray:
        """lambda up to which the machines serve each class, shape (classes,)."""
        total = np.bincount(
            self.class_of, weights=self.flow * machines[self.bin_of], minlength=self.classes
        )
        return np.asarray(total, dtype=np.float64)


def move_machines(machines: NDArray[np.int64], flows: BinFlows) -> NDArray[np.int64]:
    """Move machines one by one to a bin of the class that bounds lambda, while that helps.

    Each move takes the machine whose loss costs least, of the same configuration, so the machines
    per configuration stay the same and lambda, that of the smallest class, never falls.

    Returns
    -------
    ndarray
        Machines of each bin, shape (B,).
    """
    moved = machines.copy()
    rates = flows.rates(moved)
    for _ in range(_MOST_MOVES):
        bound = int(np.argmin(rates))
        move = _best_move(moved, rates, flows, bound)
        if move is None:
            break
        source, target = move
        moved[source] -= 1
        moved[target] += 1
        rates = flows.rates(moved)
    return moved


def _best_move(
    machines: NDArray[np.int64], rates: FloatArray, flows: BinFlows, bound: int
) -> tuple[int, int] | None:
    """Source and target bin of the move with the largest resulting lambda; None if none helps."""
    after = rates[flows.class_of] - flows.flow
    left = np.full(machines.size, np.inf)
    np.minimum.at(left, flows.bin_of, after)
    left[machines == 0] = -np.inf
    entries = np.flatnonzero(flows.class_of == bound)
    best, worth = None, rates[bound] * (1 + _LEAST_GAIN) + _LEAST_GAIN
    for j in np.unique(flows.configuration[flows.bin_of[entries]]):
        here = entries[flows.configuration[flows.bin_of[entries]] == j]
        target = here[int(np.argmax(flows.flow[here]))]
        given = np.where(flows.configuration == j, left, -np.inf)
        source = int(np.argmax(given))
        value = min(float(given[source]), float(rates[bound] + flows.flow[target]))
        if value > worth:
            best, worth = (source, int(flows.bin_of[target])), value
    return best
