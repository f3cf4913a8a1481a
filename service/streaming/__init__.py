"""Server-sent events: streams without threads of their own, and the one thread that feeds them."""
