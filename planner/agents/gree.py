"""GREE (Rayon 4.2), completed by greedy.md section 1; as printed; and mirrored in time."""

from __future__ import annotations

from planner.agents.atom_placer import GreedyAgent
from planner.kernels import BLOCKS, COMPACT, PAPER

#: Whole leases from the right; a refused request once more with the compact shape first.
GREE = GreedyAgent("gree", (BLOCKS, COMPACT))

#: The printed rule without fall-backs, for comparison.
GREE_PAPER = GreedyAgent("gree-paper", (PAPER,))

#: GREE from the left: everything as early as it can be.
EARLIEST = GreedyAgent("earliest", (BLOCKS, COMPACT), early=True)

#: The same with the compact shape first: the earliest last step on a flat profile.
EARLIEST_COMPACT = GreedyAgent("earliest-compact", (COMPACT,), early=True)
