"""Calls of applications, their assignments, and executors."""
