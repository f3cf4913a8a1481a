"""The views of the HTTP calls: one package for each resource, as in `service.calls`."""
