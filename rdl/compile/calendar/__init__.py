"""Civil time: zones, excluded days, and recurring windows."""
