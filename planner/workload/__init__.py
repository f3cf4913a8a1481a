"""A whole workload, offline: compile it, plan it, compare plans, read them back."""
