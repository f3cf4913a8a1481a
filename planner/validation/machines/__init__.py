"""What slots promise of single machines, checked from a plan document alone."""
