"""Offline optimisation in one import: `optimize` and what it is given and answers."""

from planner.optimization.answer import Effort, LeftOut, Optimized, Progress, Scope
from planner.optimization.fitting import Fitting, still_fitting
from planner.optimization.goal import Goal, Parts, Weights
from planner.optimization.optimizer import optimize
from planner.optimization.pins import PinConflict
from planner.optimization.refitting import refitted

__all__ = [
    "Effort",
    "Fitting",
    "Goal",
    "LeftOut",
    "Optimized",
    "Parts",
    "PinConflict",
    "Progress",
    "Scope",
    "Weights",
    "optimize",
    "refitted",
    "still_fitting",
]
