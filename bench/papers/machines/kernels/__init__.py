"""The machine-level event loop, compiled: its state, ends of jobs, starts, and the loop."""
