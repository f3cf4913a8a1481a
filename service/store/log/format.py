"""Which format the log has, so that of two versions of Agenda only one writes to it."""

from __future__ import annotations

from typing import Any, Final

from service.store.database.driver import OutdatedError

#: Name of the log's head, by the format of the log. A version of Agenda whose records an older one
#: could not read gives the head another name, by a migration: older servers append nothing then.
HEAD: Final = "log 2"

_NAMES: Final = "SELECT name FROM head"


def require_format(cursor: Any) -> None:
    """Refuse to write to a log in another format.

    Raises
    ------
    OutdatedError
        Saying what to do.
    """
    cursor.execute(_NAMES)
    if (HEAD,) not in [tuple(row) for row in cursor.fetchall()]:
        raise OutdatedError(
            "the database was brought to another version of Agenda while this server ran; stop it "
            "and start that version"
        )
