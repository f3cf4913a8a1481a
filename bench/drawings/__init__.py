"""Benches that draw curves and the comparison figures."""
