"""Log lines of a server on standard error: for people, or one JSON object per line."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, TypeAlias

import msgspec

from service.store.engine import UNAVAILABLE

_FORMAT: Final = "[%(asctime)s] [%(process)d] [%(levelname)s] %(message)s"
_TIME: Final = "%Y-%m-%d %H:%M:%S %z"

_ExcInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)

#: The id of the request that this thread answers, ``""`` outside of one.
REQUEST_ID: Final[ContextVar[str]] = ContextVar("agenda_request_id", default="")

#: Seconds for which a line about an unavailable database is not repeated.
_AWAY_S: Final = 30.0

#: One line per answer to a request for a reservation; only written if lines are JSON.
ADMISSIONS: Final = logging.getLogger("agenda.admissions")

#: Start of a setting, member or parameter with the name of a secret.
_NAMED: Final = r"(?i)(\b\w*(?:token|password|passwd|secret)\w*[\"']?\s*[=:]\s*)"

#: Passwords in URLs, values of the header Authorization or of names of secrets, and secrets of
#: tokens and webhooks anywhere.
_SECRETS: Final = (
    (re.compile(r"(://[^\s:/@]*):\S+@"), r"\1:***@"),
    (re.compile(r"\bagenda_(?=[a-z_]*[A-Z0-9-])[\w-]{43}(?![\w-])"), "agenda_***"),
    (re.compile(r"\bwhsec_[A-Za-z0-9+/]+=*"), "whsec_***"),
    (re.compile(r"(?i)\b(bearer|basic) +[\w.~+/=-]{6,}"), r"\1 ***"),
    (re.compile(_NAMED + r"([\"'])(?:(?!\2)[^\\\n])+\2"), r"\1\2***\2"),
    (re.compile(_NAMED + r"([\"']?)[^\s\"',;&}]+"), r"\1\2***"),
)


_SECRET_NAME: Final = re.compile(r"(?i)token|password|passwd|secret|credential|(?:^|_)key$")


def is_secret_name(name: str) -> bool:
    """Return whether a name is that of a secret."""
    return _SECRET_NAME.search(name) is not None


def redact(text: str) -> str:
    """Return a text with recognisable secrets hidden."""
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


class _Lines(logging.Formatter):
    """Shows tracebacks of internal errors; an unavailable database takes one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, without secrets."""
        return redact(super().format(record))

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - logging's name
        """Return the text below a message."""
        if isinstance(ei[1], UNAVAILABLE):
            return f"  the database cannot be used: {' '.join(str(ei[1]).split())}"
        return super().formatException(ei)


class JsonLines(_Lines):
    """One JSON object per line; `fields` of a record's extra are members of it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, without secrets."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "process": record.process,
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        request = REQUEST_ID.get()
        if request:
            line["request_id"] = request
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = redact(self.formatException(record.exc_info))
        return msgspec.json.encode(line).decode()


class AwayLines(logging.Filter):
    """Limits messages about an unavailable database to two a minute of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a record; a written one gives the number of dropped ones."""
        if record.exc_info is None or not isinstance(record.exc_info[1], UNAVAILABLE):
            return True
        if REQUEST_ID.get():  # a client got this error, and may ask for its line
            return True
        at, left_out = self._said.get(record.msg, (-_AWAY_S, 0))
        if time.monotonic() - at < _AWAY_S:
            self._said[record.msg] = at, left_out + 1
            return False
        self._said[record.msg] = time.monotonic(), 0
        if left_out:
            record.msg, record.args = f"{record.getMessage()} ({left_out} times more since)", ()
        return True


def begin_log(log_format: str = "text") -> None:
    """Let Agenda's loggers write to standard error, each line with its time and process.

    Parameters
    ----------
    log_format
        ``text`` or ``json``.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if log_format == "json" else _Lines(_FORMAT, _TIME))
    handler.addFilter(AwayLines())
    ours = logging.getLogger("agenda")
    ours.handlers, ours.propagate = [handler], False
    ours.setLevel(logging.INFO)
    ADMISSIONS.setLevel(logging.INFO if log_format == "json" else logging.WARNING)


def log_admission(fields: Mapping[str, object]) -> None:
    """Write the line of one answer to a request for a reservation."""
    ADMISSIONS.info("admission", extra={"fields": fields})


def gunicorn_logging() -> dict[str, Any]:
    """Return the logging of gunicorn's own lines as JSON, as `logging.config.dictConfig` has it."""
    handlers = {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "service.logs.JsonLines"}},
        "handlers": handlers,
        "root": {"level": "INFO", "handlers": ["stderr"]},
        "loggers": {
            "gunicorn.error": {"level": "INFO", "handlers": ["stderr"], "propagate": False}
        },
    }
