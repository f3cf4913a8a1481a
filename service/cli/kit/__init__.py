"""What every command is made of: groups, options, answers, errors, progress, a server."""
