"""PlanSnapshot: the agents' view of the Plan at one version (or live, for a single writer)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from planner.capacity.profile import FreeProfile
from planner.placement import PlacementResult
from planner.request import Request
from planner.value import PriceList, prices_of
from planner.view import AverageSlack, Demand, ProfileArrays
from rdl.resources import Resources
from rdl.time_grid import TimeGrid

if TYPE_CHECKING:
    from planner.reservations.reservation import Holding


class PlanSnapshot:
    """A `planner.view.PlanView` over a ledger.

    `demand` may add rows to `free` and `averages` (for a new scope of a policy); rows never move,
    so get demands first and read the arrays afterwards.
    """

    __slots__ = ("__weakref__", "_ledger", "version")

    def __init__(self, ledger: FreeProfile, version: int) -> None:
        self._ledger = ledger
        self.version = version

    def after(
        self, placed: Iterable[tuple[Request, PlacementResult]], version: int
    ) -> PlanSnapshot:
        """Return the view of `version`, with `placed` committed in addition."""
        return self._with_results(placed, version, 1)

    def without(
        self, placed: Iterable[tuple[Request, PlacementResult]], version: int
    ) -> PlanSnapshot:
        """Return the view of `version`, without `placed`, which this view includes."""
        return self._with_results(placed, version, -1)

    def without_steps(self, steps: NDArray[np.bool_]) -> PlanSnapshot:
        """Return an independent view in which no machine is free at some steps."""
        ledger = self._ledger.copy()
        ledger.close(steps)
        return self._on(ledger, self.version)

    def holding(self, held: Iterable[tuple[str, str, Holding]], version: int) -> PlanSnapshot:
        """Return the view of `version`, with additional holdings of (tenant, queue)."""
        return self._with(held, version, 1)

    @property
    def ledger(self) -> FreeProfile:
        """The ledger that is read; do not write it."""
        return self._ledger

    def _on(self, ledger: FreeProfile, version: int) -> PlanSnapshot:
        """Return a view of the same class on another ledger."""
        return PlanSnapshot(ledger, version)

    def _with_results(
        self, placed: Iterable[tuple[Request, PlacementResult]], version: int, sign: int
    ) -> PlanSnapshot:
        from planner.reservations.holding import holding_of

        held = ((one.tenant, one.queue, holding_of(one, result)) for one, result in placed)
        return self._with(held, version, sign)

    def _with(
        self, held: Iterable[tuple[str, str, Holding]], version: int, sign: int
    ) -> PlanSnapshot:
        from planner.capacity.shortage import takings_of

        ledger = self._ledger.copy()
        for tenant, queue, holding in held:
            takings = takings_of(holding, ledger, tenant, queue)
            ledger.take((taking.demand, taking.rows, sign) for taking in takings)
        return self._on(ledger, version)

    @property
    def grid(self) -> TimeGrid:
        """The Plan's grid."""
        return self._ledger.grid

    @property
    def reference(self) -> Resources:
        """The largest amount of each resource on one machine."""
        return self._ledger.book.cluster.reference

    @property
    def nominal(self) -> Resources:
        """Total of all machines without outages."""
        return self._ledger.book.cluster.nominal

    @property
    def first(self) -> int:
        """Step of column 0 of `free`."""
        return self._ledger.first

    @property
    def free(self) -> NDArray[np.int64]:
        """int64[row, step - first], read-only."""
        return self._ledger.free

    @property
    def row_names(self) -> tuple[tuple[str, str], ...]:
        """(what, resource) of each row of `free`."""
        return tuple((row.what, row.resource) for row in self._ledger.book.rows)

    @property
    def segments(self) -> NDArray[np.int64]:
        """int64[s + 1]: steps at which the number of machines changes."""
        return self._ledger.calendar.breaks

    @property
    def averages(self) -> AverageSlack:
        """Slack of window averages."""
        return self._ledger.averages

    @property
    def prices(self) -> PriceList | None:
        """The price of each step; None if the cluster has no prices."""
        return prices_of(self._ledger.book.cluster, self._ledger.grid)

    def arrays(self) -> ProfileArrays:
        """Return the arrays behind the view; get demands first."""
        return self._ledger.arrays()

    def demand(self, bundle: Resources, label: str | None, tenant: str, queue: str) -> Demand:
        """Return the use of `bundle`; the same arguments give the same object."""
        return self._ledger.demand(bundle, label, tenant, queue)
