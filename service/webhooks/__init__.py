"""Webhooks: which events each is reported, and their delivery."""
