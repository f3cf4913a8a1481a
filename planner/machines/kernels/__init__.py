"""Compiled loops of the machine room: its trees, and finding, placing and searching slots."""
