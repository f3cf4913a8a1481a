"""Requests and what a view leaves free, made into the arrays of a `PlanningProblem`."""

from planner.agents.exact.build.problem_builder import build_problem

__all__ = ["build_problem"]
