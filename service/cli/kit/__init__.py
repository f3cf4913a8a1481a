"""Shared parts of all commands: groups, options, answers, errors, progress, a server."""
