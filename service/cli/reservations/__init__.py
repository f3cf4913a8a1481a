"""`agenda reservations`: the reservations of a server, one verb a command."""
