"""Kubernetes: what is asked of its API server."""
