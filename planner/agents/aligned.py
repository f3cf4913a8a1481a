"""Aligned agents: what they place leaves most headroom (after YARN's low-cost aligned agent)."""

from __future__ import annotations

from planner.agents.atom_placer import GreedyAgent
from planner.kernels import COMPACT, HEADROOM, HEADROOM_ONLY, LEVEL

#: The free rectangle that leaves most; ties go to the latest.
ALIGNED = GreedyAgent("aligned", (HEADROOM, COMPACT))

#: Ties go to the earliest rectangle.
ALIGNED_EARLY = GreedyAgent("aligned-early", (HEADROOM, COMPACT), early=True)

#: The same rectangle or nothing. Nothing is squeezed in, which leaves room for more requests.
HEADROOM_ALONE = GreedyAgent("headroom", (HEADROOM_ONLY,))

#: The highest level of headroom under which the work still fits: admits the most work.
LEVELLED = GreedyAgent("level", (LEVEL, COMPACT))
