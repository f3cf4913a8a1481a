"""Entitlements of the Plan's reservations at an instant, now and soon."""
