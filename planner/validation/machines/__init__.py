"""Checks of the slots on individual machines, from a plan document only."""
