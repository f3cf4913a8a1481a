"""`agenda estimate`: what recurring jobs will need, from their finished runs."""
