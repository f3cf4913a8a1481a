"""The cluster: its description, machines, outages, and how work is dispatched on it."""
