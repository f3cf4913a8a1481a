"""The error for an invalid model, limit or solver name."""

from __future__ import annotations


class ModelError(ValueError):
    """No solver can accept the input; the message has the error and valid input."""
