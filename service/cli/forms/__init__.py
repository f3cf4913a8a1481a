"""The forms of an answer: tables that fit, YAML, and what was asked of a list."""
