"""Calls of events and webhooks."""
