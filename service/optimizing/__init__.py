"""Offline optimisation beside a server: a process for each, and its row in the store."""
