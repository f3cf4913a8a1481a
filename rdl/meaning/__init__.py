"""The meaning of a request for people, and questions about ambiguous numbers."""
