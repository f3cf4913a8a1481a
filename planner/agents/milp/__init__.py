"""`milp`: Rayon's model, its later solves, and what is read from its answers."""
