"""The Plan at an instant: which reservation is entitled to what, now and soon."""
