"""The edge: HTTP, command line, storage and pages; the only place where parts are wired together."""
