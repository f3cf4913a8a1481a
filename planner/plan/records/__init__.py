"""Requested changes of the Plan, and records of the changes made."""
