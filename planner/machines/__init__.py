"""Free capacity of every machine over time, and the search for slots in it."""
