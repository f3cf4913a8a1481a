"""The database itself: engines, tables, statements, time, turns and notifications."""
