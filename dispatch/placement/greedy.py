"""First fit in the order of the machines."""

from __future__ import annotations

from dispatch.placement.interface import KernelPlacement, Policy


class GreedyPlacement(KernelPlacement):
    """Lowest machine that fits; see `kernels.choose_first_fit`."""

    name: Policy = "greedy"
