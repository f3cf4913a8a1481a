"""The fuzzer of everything that reads requests."""
