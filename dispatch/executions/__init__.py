"""Runs of applications: their states, their components, and the events of backends."""
