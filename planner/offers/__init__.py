"""Counter-offers: small changes with which a refused request would be accepted."""
