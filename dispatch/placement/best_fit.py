"""Best fit: the machine with the least room to spare."""

from __future__ import annotations

from dispatch.placement.interface import KernelPlacement, Policy


class BestFitPlacement(KernelPlacement):
    """Least room left over, as parts of the machine; see `kernels.choose_best_fit`."""

    name: Policy = "best_fit"
