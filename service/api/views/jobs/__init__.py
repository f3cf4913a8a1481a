"""Calls of optimisations and comparisons."""
