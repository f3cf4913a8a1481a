"""The HTTP calls: a table of routes, their views, what they read and what they answer."""
