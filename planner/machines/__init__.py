"""What every machine has left over time, and the search for slots in it."""
