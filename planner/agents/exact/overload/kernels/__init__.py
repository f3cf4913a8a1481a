"""Compiled loops over runs of single bundles."""
