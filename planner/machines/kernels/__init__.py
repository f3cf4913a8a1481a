"""Compiled loops of the machine room: its trees, and how slots are found, laid and searched."""
