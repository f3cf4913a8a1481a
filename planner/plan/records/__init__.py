"""Changes asked of the Plan, and the records of changes made."""
