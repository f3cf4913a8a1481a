"""Machine-level simulation: jobs onto machines, one compiled event loop, millions of jobs."""
