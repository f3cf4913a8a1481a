"""The edge: HTTP, command line, storage, pages; the one place where parts are wired together."""
