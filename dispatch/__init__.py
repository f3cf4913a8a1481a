"""Dispatching: decide from the Plan and the machines which component runs where now."""
