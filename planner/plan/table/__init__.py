"""Reservations as columns, and what their columns are made of."""
