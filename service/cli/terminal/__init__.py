"""The terminal of every command: options, output, errors, progress, exit codes."""
