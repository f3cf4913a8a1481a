"""What a server says on standard error: lines like those of gunicorn, beside its own."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final, TypeAlias

from service.store.driver import UNAVAILABLE

_FORMAT: Final = "[%(asctime)s] [%(process)d] [%(levelname)s] %(message)s"
_TIME: Final = "%Y-%m-%d %H:%M:%S %z"

_ExcInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


class _Lines(logging.Formatter):
    """Shows where a fault of ours was raised; a database that is away takes one line."""

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - logging's name
        """Return the text below a message."""
        if isinstance(ei[1], UNAVAILABLE):
            return f"  the database cannot be used: {' '.join(str(ei[1]).split())}"
        return super().formatException(ei)


def begin_log() -> None:
    """Let Agenda's loggers write to standard error, each line with its time and process."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines(_FORMAT, _TIME))
    ours = logging.getLogger("agenda")
    ours.handlers, ours.propagate = [handler], False
    ours.setLevel(logging.INFO)
