"""Exit codes of every command."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
ERROR: Final = 1
USAGE: Final = 2
REFUSED: Final = 3  # the one request was refused; `plan --strict`: any was
STOPPED: Final = 4  # stopped with nothing written
INTERRUPTED: Final = 130  # stopped before the command began, as shells tell ^C
