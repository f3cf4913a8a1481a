"""What happens: events and webhooks."""
