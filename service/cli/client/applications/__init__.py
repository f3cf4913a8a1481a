"""Commands on applications, and on how a server dispatches them."""
