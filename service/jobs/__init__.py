"""Optimisations and comparisons, each with a row and a process; and the workers of their tasks."""
