"""The Lagrangian bound: subgradient ascent and column generation lower it."""
