"""`agenda cluster` and `agenda usage`: what there is, what would be, and who holds how much."""
