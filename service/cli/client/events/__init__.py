"""Commands on what happens on a server: watch it, or have it told."""
