"""Import public traces and other systems' requests as workload lines (files.md)."""
