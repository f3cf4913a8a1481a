"""Offline optimisation as a service: asked for, watched, stopped, applied or forgotten."""
