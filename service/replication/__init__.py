"""This process's copy of the Plan: replayed from the log and kept equal to it."""
