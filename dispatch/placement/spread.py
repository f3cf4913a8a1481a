"""Spread: the machine that runs least."""

from __future__ import annotations

from dispatch.placement.interface import KernelPlacement, Policy


class SpreadPlacement(KernelPlacement):
    """Fewest jobs, then most memory left; see `kernels.choose_spread`."""

    name: Policy = "spread"
