"""The resources of the API, one module per noun, with their calls."""
