"""Benchmarks: one self-registering file a case, `python -m bench CASE --json`."""
