"""Webhooks: which events each is told, and their delivery."""
