"""Compiled loops of the exact planner: the Lagrangian bound and the search for plans."""
