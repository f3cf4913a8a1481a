"""Runs of applications: their states, their components, and what backends tell of them."""
