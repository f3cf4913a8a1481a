"""The event loop of a cell, compiled: its arrays, placement, commits, offers, and the loop."""
