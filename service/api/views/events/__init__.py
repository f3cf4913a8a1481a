"""Calls of events, webhooks and calendars."""
