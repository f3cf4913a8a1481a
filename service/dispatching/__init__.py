"""The dispatcher inside a server: its thread, and the tables solved alongside it."""
