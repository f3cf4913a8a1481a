"""Offline optimisation: changes that lead to a better Plan without reducing any promise."""
