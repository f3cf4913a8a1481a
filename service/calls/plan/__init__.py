"""The Plan as a whole: over time, in pictures, as a file, and what became of its promises."""
