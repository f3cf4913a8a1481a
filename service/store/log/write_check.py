"""WriteCheck: whether the database takes what is written, as far as this process knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from service.store.database.driver import Driver, UnavailableError
from service.store.log.format import require_format

#: What an attempt writes, and takes away again: more than an append of most groups.
_SIZE: Final = 65_536

_WRITE: Final = (
    "INSERT INTO settings (name, value) VALUES ('attempt', ?) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_TAKE_AWAY: Final = "DELETE FROM settings WHERE name = 'attempt'"


class WriteCheck:
    """Remembers the last failure to write, until something is written again.

    A process that has not written anything yet does not know: the first attempt is made then too.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._unsure = True

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note whether the block, which writes, finds the database away or full."""
        try:
            yield
        except UnavailableError:
            self._unsure = True
            raise
        self._unsure = False

    def attempt(self) -> None:
        """Write something unless the last thing that was written succeeded.

        A log that has another format by now is refused too.

        Raises
        ------
        UnavailableError
            If it cannot be written.
        """
        if not self._unsure:
            return
        with self._driver.transaction() as cursor:
            require_format(cursor)
        with self.noted():
            for statement, given in ((_WRITE, ("x" * _SIZE,)), (_TAKE_AWAY, ())):
                # One after the other: together they might need no room at all.
                with self._driver.transaction() as cursor:
                    cursor.execute(self._driver.statement(statement), given)
