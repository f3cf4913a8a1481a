"""Entitlements as Slurm reservations, and the jobs that people run in them."""
