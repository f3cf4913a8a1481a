"""Omega's experiments: architectures of a cell, its MapReduce jobs, and planners on one Plan."""
