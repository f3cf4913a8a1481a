"""The greedy agents: requests one after the other, placed by compiled loops."""
