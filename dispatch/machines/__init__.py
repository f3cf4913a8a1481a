"""The machines there are, and the choice of one for a component."""
