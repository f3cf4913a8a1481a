"""The views of the HTTP calls: one file for each noun, as in `service.calls`."""
