"""Backends, which carry out a virtual assignment; `in_memory` is the reference implementation."""
