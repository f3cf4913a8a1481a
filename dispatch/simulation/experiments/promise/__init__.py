"""How long reservations are below what they were promised (Rayon, figure 17)."""
