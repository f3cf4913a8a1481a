"""Work graphs and the Plan: agents place requests, the Plan keeps every promise made."""
