"""Commits of commands to the log: screen, place, check, append, answer."""
