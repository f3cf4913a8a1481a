"""The views of the HTTP calls, a file a noun."""
