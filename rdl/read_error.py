"""What readers of words, amounts, times and JSON raise; below all of them, so a file of its own."""

from __future__ import annotations


class ReadError(ValueError):
    """Something written that cannot be read, or cannot be meant.

    Attributes
    ----------
    message
        What is wrong.
    fix
        What would be right, or None when nothing short would say it.
    """

    def __init__(self, message: str, fix: str | None = None) -> None:
        self.message = message
        self.fix = fix
        super().__init__(message if fix is None else f"{message}; {fix}")
