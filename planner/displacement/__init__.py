"""Requests that displace reservations of lower priority (Omega 3.4)."""
