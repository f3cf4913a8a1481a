"""Accounts of what was kept: time below entitlements, and work ahead of them."""
