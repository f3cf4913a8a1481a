"""TokenBook: the tokens that a process has met, so that a call seldom asks the database."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from service.access.token import Token, hash_of
from service.store.database.driver import UNAVAILABLE
from service.store.rows.tokens import TokenRows

logger = logging.getLogger("agenda.service")

#: How long a token is taken for what it was, seconds: a token that is revoked, by whatever process,
#: is good for no longer than that.
FRESH_S: Final = 1.0

#: Most tokens that are remembered, and ms between two notes of the use of one.
_MOST: Final = 10_000
_NOTED_MS: Final = 600_000


#: How keys of names begin; those of secrets are their hashes.
_NAME: Final = "name "


def key_of_secret(secret: str) -> str:
    """Return the key of the token that a bearer shows."""
    return hash_of(secret)


def key_of_name(name: str) -> str:
    """Return the key of the newest good token of a user."""
    return f"{_NAME}{name}"


class TokenBook:
    """Finds tokens; any thread may ask.

    What is not found is not remembered: whoever guesses pays a look into an index for each guess.
    """

    def __init__(self, rows: TokenRows) -> None:
        self._rows = rows
        self._met: dict[str, tuple[float, Token]] = {}

    def of_key(self, key: str, now_ms: int) -> Token | None:
        """Return the token of `key_of_secret` or `key_of_name`, or None.

        Raises
        ------
        UnavailableError
            If the database cannot be used now.
        """
        if key.startswith(_NAME):
            name = key.removeprefix(_NAME)
            return self._known(key, lambda: self._rows.of_name(name, now_ms), now_ms)
        return self._known(key, lambda: self._rows.of_hash(key), now_ms)

    def _known(self, key: str, find: Callable[[], Token | None], now_ms: int) -> Token | None:
        now = time.monotonic()
        met = self._met.get(key)
        if met is not None and now - met[0] < FRESH_S:
            return met[1]
        token = find()
        if token is None:
            self._met.pop(key, None)
            return None
        if len(self._met) >= _MOST:
            self._met.clear()
        self._met[key] = now, token
        if token.used_ms is None or now_ms - token.used_ms >= _NOTED_MS:
            self._note(token, now_ms)
        return token

    def _note(self, token: Token, now_ms: int) -> None:
        """Write down a use; a call that only reads is answered where that cannot be."""
        if token.fault(now_ms) is not None:
            return
        try:
            self._rows.note_use(token.id, now_ms)
        except UNAVAILABLE as error:
            logger.warning("the use of a token was not written down: %s", error)
