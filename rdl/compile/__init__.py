"""From an expression to a WorkGraph: check, normalise, tighten, lay out as arrays."""
