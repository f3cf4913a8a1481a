"""From what became of a change to its answer: outcomes, offers, responses."""
