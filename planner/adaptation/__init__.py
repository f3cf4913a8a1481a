"""What becomes of reservations when capacity changes (Rayon 5.2, Adapter)."""
