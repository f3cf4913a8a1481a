"""GREE-L (Rayon 4.2, Algorithm 1; greedy.md section 2): flat allocations in shared intervals."""

from __future__ import annotations

from planner.agents.atom_placer import GreedyAgent
from planner.kernels import GAPS, LOWEST

#: Lowest rectangle in intervals by the square root of work. A refused workflow is not tried once
#: more as GREE does: that accepts a tenth more of them, and triples their preemption. Requests
#: with largest gaps are, because leapfrog needs the latest starts.
GREE_L = GreedyAgent("gree-l", (LOWEST, GAPS))
