"""RDL: what a job needs and by when, from text or JSON to a checked, normalised WorkGraph."""
