"""Commands on the reservations of a server, and offers."""
