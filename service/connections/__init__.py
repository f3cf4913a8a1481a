"""Clients' sockets: what has arrived of a request, how many may connect, and gunicorn's worker."""
