"""The command line: `agenda`, one file a command, imported only when it is run."""
