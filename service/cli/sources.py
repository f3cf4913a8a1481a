"""Text that a command is given: a file, or standard input for ``-``."""

from __future__ import annotations

import sys
from pathlib import Path

from service.cli.trouble import Trouble


def read_text(file: str) -> str:
    """Return the text of a file, without a byte order mark; ``-`` is standard input.

    Raises
    ------
    Trouble
        If it is not UTF-8.
    """
    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Trouble(f"{file}: not UTF-8 text ({error.reason} at byte {error.start})") from error
