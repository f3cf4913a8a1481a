"""Plan and tables: who runs where, now."""
