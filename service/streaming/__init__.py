"""Server-sent events: streams that hold no thread, and the one thread that feeds them all."""
