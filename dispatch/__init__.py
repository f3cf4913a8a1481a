"""From the Plan and the machines to which component runs where, now."""
