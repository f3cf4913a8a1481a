"""Clients' sockets: request buffers, connection limits, and gunicorn's worker."""
