"""PlanView: the agents' read-only view of a Plan at one version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from planner.placement import PlacementResult
from planner.request import Request
from planner.value import PriceList
from rdl.resources import Resources
from rdl.time_grid import TimeGrid


@dataclass(frozen=True, slots=True)
class AverageSlack:
    """Slack of every window-average limit.

    For limit i with window W = `windows[i]`, `slack[i, tau - first + offset]` is A W - F(tau), F
    being the use inside [tau, tau + W); it has every tau whose window overlaps the horizon, so
    `offset` is the largest window.

    Attributes
    ----------
    windows
        int64[n], in steps.
    slack
        int64[n, offset + steps], in amount-steps; read-only.
    offset
        Column of tau = first.
    names
        (policy, resource) of each limit, for refusals.
    """

    windows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    slack: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    offset: int = 0
    names: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Demand:
    """The capacity that one bundle of an atom takes from the profile, and the number that fits on
    machines.

    One `Demand` serves all atoms with the same bundle, label, tenant and queue.

    Attributes
    ----------
    rows
        Rows of `PlanView.free` that the bundle takes from: the pool's, its label's, and one for
        each policy that limits an instant.
    amounts
        Amount it takes from each of those rows; same length, all positive.
    fit
        Most bundles that fit on the machines (with the label), in each segment of
        `PlanView.segments`.
    averages
        Rows of `PlanView.averages` whose sliding windows limit its scope.
    average_amounts
        Amount that one bundle-step counts against each of them.
    """

    rows: tuple[int, ...]
    amounts: tuple[int, ...]
    fit: tuple[int, ...]
    averages: tuple[int, ...] = ()
    average_amounts: tuple[int, ...] = ()


class ProfileArrays(NamedTuple):
    """The arrays of a view for kernels: of writable type, but never to be written.

    With them (`PlanView.arrays`) placing one atom needs no copy.

    Attributes
    ----------
    free, slack
        As in `PlanView.free` and `PlanView.averages`.
    low, slack_low
        Minima of their blocks, or no blocks (`planner.capacity.block_index`).
    """

    free: NDArray[np.int64]
    low: NDArray[np.int64]
    slack: NDArray[np.int64]
    slack_low: NDArray[np.int64]


class PlanView(Protocol):
    """Free capacity over [first, grid.horizon) at one version of the Plan."""

    @property
    def version(self) -> int:
        """Version of the Plan."""
        ...

    @property
    def grid(self) -> TimeGrid:
        """The Plan's grid; requests are compiled on it."""
        ...

    @property
    def nominal(self) -> Resources:
        """Total of all machines without outages, to which prices and shares are relative."""
        ...

    @property
    def reference(self) -> Resources:
        """The largest amount of each resource on one machine: the unit of sizes and values."""
        ...

    @property
    def first(self) -> int:
        """Step of column 0 of `free`."""
        ...

    @property
    def free(self) -> NDArray[np.int64]:
        """int64[row, step - first], read-only: free capacity; may be negative after a loss."""
        ...

    @property
    def row_names(self) -> tuple[tuple[str, str], ...]:
        """(what, resource) of each row: ``("pool", "cpu")``, ``("label:ssd", "cpu")``,
        ``("quota:ads", "memory")``."""
        ...

    @property
    def segments(self) -> NDArray[np.int64]:
        """int64[s + 1]: steps at which the number of machines changes; entries bound segments."""
        ...

    @property
    def averages(self) -> AverageSlack:
        """Slack of window-average policies, one row per scope, policy and resource."""
        ...

    @property
    def prices(self) -> PriceList | None:
        """The price of each step; None if the cluster has no prices."""
        ...

    def arrays(self) -> ProfileArrays | None:
        """Return the arrays behind the view, or None if it has none to share.

        Get demands first, since they may add rows.
        """
        ...

    def demand(self, bundle: Resources, label: str | None, tenant: str, queue: str) -> Demand:
        """Return the use of `bundle`; the same arguments give the same (cached) object."""
        ...

    def after(self, placed: Iterable[tuple[Request, PlacementResult]], version: int) -> PlanView:
        """Return an independent view, with the allocations of `placed` in addition."""
        ...

    def without(self, placed: Iterable[tuple[Request, PlacementResult]], version: int) -> PlanView:
        """Return an independent view without the allocations of `placed`, which this one has."""
        ...

    def without_steps(self, steps: NDArray[np.bool_]) -> PlanView:
        """Return an independent view in which no machine is free at some steps.

        Parameters
        ----------
        steps
            bool[grid.horizon - first], True if nothing may be placed.
        """
        ...
