"""Compile an expression to a WorkGraph: check, normalise, tighten, store as arrays."""
