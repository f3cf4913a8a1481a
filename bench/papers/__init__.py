"""Simulators: machine level (compiled) and cluster (the real Plan, follower and dispatcher)."""
