"""Slurm itself: its settings, what it is asked, and what it answers."""
