"""What is wrong with a model, a limit or a solver's name, with what would be right."""

from __future__ import annotations


class ModelError(ValueError):
    """No solver could take it; the message says where it is wrong and what would be right."""
