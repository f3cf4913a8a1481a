"""Durable posts, reads and starts of the service and its command line."""
