"""Calls of tokens and the audit."""
