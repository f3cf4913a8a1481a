"""Change of a started reservation: its fixed past, the remainder, and both joined."""
