"""Commands on the Plan of a server as a whole."""
