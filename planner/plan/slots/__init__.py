"""Machines for promises: which slots a change keeps, finds or is given."""
