"""The forms of an answer: tables that fit, and what was asked of a list."""
