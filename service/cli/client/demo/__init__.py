"""`agenda demo`: a server with executors on loopback, a day that passes in a minute, its scenes."""
