"""The base class of errors of all readers of words, amounts, times and JSON."""

from __future__ import annotations


class ReadError(ValueError):
    """A text or value that is unreadable or makes no sense.

    Attributes
    ----------
    message
        The error.
    fix
        A suggested fix, or None if there is no short one.
    """

    def __init__(self, message: str, fix: str | None = None) -> None:
        self.message = message
        self.fix = fix
        super().__init__(message if fix is None else f"{message}; {fix}")
