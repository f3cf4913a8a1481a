"""Jobs that run beside the planner: optimisations and comparisons."""
