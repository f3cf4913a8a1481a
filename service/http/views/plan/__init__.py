"""Calls of the Plan as a whole."""
