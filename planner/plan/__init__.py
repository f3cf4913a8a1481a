"""The Plan: requested changes, records of the changes made, and the state they add up to."""
