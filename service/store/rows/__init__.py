"""Rows that are no commits: applications, runs, jobs, tokens and what clients left."""
