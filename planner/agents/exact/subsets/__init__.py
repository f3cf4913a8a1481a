"""Which requests can be there together: the proof of small sets, by subsets of the requests."""
