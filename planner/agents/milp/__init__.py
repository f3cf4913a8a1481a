"""`milp`: Rayon's model, its later solves, and decoding its solutions."""
