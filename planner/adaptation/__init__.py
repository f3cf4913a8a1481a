"""Adapt reservations to changes of capacity (Rayon 5.2, Adapter)."""
