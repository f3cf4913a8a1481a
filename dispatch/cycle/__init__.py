"""One cycle of the dispatcher: what is covered, what else runs, and on which machines."""
