"""Reservations: what they are, may become, and hold."""
