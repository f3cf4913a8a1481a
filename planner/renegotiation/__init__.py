"""A reservation that has begun, changed: its fixed past, what remains, and the two joined."""
