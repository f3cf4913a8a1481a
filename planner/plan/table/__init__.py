"""The table of reservations, stored in columns."""
