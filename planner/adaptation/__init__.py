"""The outcome of reservations when capacity changes (Rayon 5.2, Adapter)."""
