"""What happens, told: events, webhooks and calendars."""
