"""The command line `agenda`: each command has a module, which is imported only to run it."""
