"""Webhooks: which events each receives, and their delivery."""
