"""`exact`: a Lagrangian bound and a search for plans, side by side, until they meet."""
