"""What is free at each step: the free profile, window averages, and what a batch would take."""
