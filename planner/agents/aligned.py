"""Aligned: the free rectangle that leaves most headroom (after YARN's low-cost aligned agent)."""

from __future__ import annotations

from planner.agents.atom_placer import GreedyAgent
from planner.kernels import COMPACT, HEADROOM

#: Ties go to the latest rectangle.
ALIGNED = GreedyAgent("aligned", (HEADROOM, COMPACT))

#: Ties go to the earliest rectangle.
ALIGNED_EARLY = GreedyAgent("aligned-early", (HEADROOM, COMPACT), early=True)
