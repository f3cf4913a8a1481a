"""Accounts of promises: time below entitlements, missed work, and work done early."""
