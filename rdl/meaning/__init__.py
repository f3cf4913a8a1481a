"""What a request means, and what should be asked about it, for people."""
