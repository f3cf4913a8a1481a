"""Greedy planning, admissions, offers, lost machines."""
