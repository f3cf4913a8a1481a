"""Machines for promises: the slots that a change keeps, finds or names."""
