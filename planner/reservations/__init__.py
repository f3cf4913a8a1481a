"""Reservations: their data, states and allocations."""
