"""Lagrangian decomposition: who runs at each step is chosen whole, and so is each placement."""
