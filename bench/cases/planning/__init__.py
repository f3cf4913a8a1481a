"""Greedy planning, admissions, offers, real days."""
