"""Optimisations and comparisons: each a row and a process; and the pools of their tasks."""
