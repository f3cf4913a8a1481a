"""Offline optimisation: a better Plan in which no promise is lowered, as changes to apply."""
