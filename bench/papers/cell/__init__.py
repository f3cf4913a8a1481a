"""A cell of machines, jobs of two types, and schedulers of every architecture (Omega, 3 and 4)."""
