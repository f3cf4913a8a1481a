"""Monitoring for operators: figures of the Plan for Prometheus, and support bundles."""
