"""Offline planning of a whole workload: compile, plan, compare plans, load them again."""
