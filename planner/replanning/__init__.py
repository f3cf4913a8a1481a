"""A Plan that may be rearranged: reservations lifted, moved and put back on a draft."""
