"""`exact`: a Lagrangian bound and a search for plans run concurrently until they meet."""
