"""GREE-L (Rayon 4.2, Algorithm 1; greedy.md section 2): flat allocations in shared intervals."""

from __future__ import annotations

from planner.agents.atom_placer import GreedyAgent
from planner.kernels import COMPACT, LOWEST

#: Lowest rectangle in intervals by the square root of work; a refused request as GREE does.
GREE_L = GreedyAgent("gree-l", (LOWEST, COMPACT))
