"""Offline optimisation in one import: `optimize` and what it is given and answers."""

from planner.optimization.answer import Effort, Optimized, Progress, Scope
from planner.optimization.goal import Goal, Parts, Weights
from planner.optimization.optimizer import optimize
from planner.optimization.pins import PinConflict

__all__ = [
    "Effort",
    "Goal",
    "Optimized",
    "Parts",
    "PinConflict",
    "Progress",
    "Scope",
    "Weights",
    "optimize",
]
