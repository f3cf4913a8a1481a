"""Counter-offers: what little would have to change for a refused request to be accepted."""
