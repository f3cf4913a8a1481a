"""From a command to the log: the one writer of a process, and its copy of the Plan."""
