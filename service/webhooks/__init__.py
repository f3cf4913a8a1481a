"""Webhooks: selection of their events, and delivery."""
