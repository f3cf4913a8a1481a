"""Who carries out changes: the planner thread, the lane of solvers, the adapter."""
