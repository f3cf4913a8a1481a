"""Changes on their way from a call to the log: commands, and those still open."""
