"""The Plan: changes asked of it, records of changes made, and the fold over them."""
