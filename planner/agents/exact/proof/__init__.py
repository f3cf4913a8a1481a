"""Solvers that prove what prices cannot: CP-SAT, dominance search, a MILP of the whole set."""
