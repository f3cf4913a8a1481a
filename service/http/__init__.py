"""HTTP: routes, authentication, request parsing, and the kit that turns functions into routes."""
