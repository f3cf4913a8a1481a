"""One cycle of the dispatcher: cover, execution of other work, and placement."""
