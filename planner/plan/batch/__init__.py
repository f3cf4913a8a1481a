"""Check a batch of changes against a Plan, in order."""
