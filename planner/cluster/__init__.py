"""The cluster: its description, policies, calendar of machines, and cost."""
