"""Free capacity at each step: the free profile, window averages, and checks of changes."""
