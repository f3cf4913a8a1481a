"""From a command to the log: screen, place, check, append, answer."""
