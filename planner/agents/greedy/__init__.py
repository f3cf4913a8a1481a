"""The greedy agents place requests one by one with compiled loops."""
