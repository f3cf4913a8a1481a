"""The experiments of the Rayon paper on a simulated cluster."""
