"""The dispatcher inside a server: its thread, and the background solving of tables."""
