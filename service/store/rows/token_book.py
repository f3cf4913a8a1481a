"""TokenBook: the tokens that a process has met, so that a call seldom asks the database."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import Final

from service.access.token import Token, hash_of
from service.store.database.driver import UNAVAILABLE
from service.store.rows.tokens import TokenRows

logger = logging.getLogger("agenda.service")

#: How long tokens are taken for what they were, seconds: a token that is revoked, by whatever
#: process, is good for no longer than that. Then one look tells whether any of them has changed.
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
        self._met: dict[str, Token] = {}
        self._names: dict[str, tuple[float, Token]] = {}
        self._stamp: tuple[int | None, ...] = ()
        self._looked_s = -FRESH_S
        self._looking = threading.Lock()

    def of_key(self, key: str, now_ms: int, *, used: bool = True) -> Token | None:
        """Return the token of `key_of_secret` or `key_of_name`, or None.

        Parameters
        ----------
        used
            Whether this is a use of it, which is written down now and then.

        Raises
        ------
        UnavailableError
            If the database cannot be used now.
        """
        if key.startswith(_NAME):
            name = key.removeprefix(_NAME)
            token = self._named(name, now_ms)
        else:
            token = self._shown(key)
        if used and token is not None:
            self._note(key, token, now_ms)
        return token

    def remembered(self, key: str) -> Token | None:
        """Return a token that a bearer has shown before, as it was then, or None."""
        return self._met.get(key)

    def maker_fault(self, key: str, tenant: str | None, now_ms: int) -> str | None:
        """Return why what was made under a token is carried on no longer, or None.

        Parameters
        ----------
        key
            Of the token; empty where none was asked for.
        tenant
            Whose things it shows; None: those of all.

        Raises
        ------
        UnavailableError
            If the database cannot be used now.
        """
        if not key:
            return None
        token = self.of_key(key, now_ms, used=False)
        if token is None:
            return "who made it has no token any more"
        if (fault := token.fault(now_ms)) is not None:
            return f"who made it may no longer: {fault}"
        allowed = token.user.sees_all if tenant is None else token.user.acts_for(tenant)
        return None if allowed else "who made it does not act for its tenant any more"

    def _shown(self, key: str) -> Token | None:
        """Return the token whose secret has this hash."""
        with self._looking:
            now = time.monotonic()
            if now - self._looked_s >= FRESH_S:
                stamp = self._rows.stamp()
                if stamp != self._stamp:
                    self._met.clear()
                self._stamp, self._looked_s = stamp, now
            met, seen = self._met.get(key), self._stamp
        if met is not None:
            return met
        token = self._rows.of_hash(key)
        if token is not None:
            self._keep(key, token, seen)
        return token

    def _keep(self, key: str, token: Token, seen: tuple[int | None, ...]) -> None:
        """Remember a token that was read under a stamp, unless there has been another since."""
        with self._looking:
            if seen == self._stamp:
                if len(self._met) >= _MOST:
                    self._met.clear()
                self._met[key] = token

    def _named(self, name: str, now_ms: int) -> Token | None:
        """Return the newest good token of a user: another one may be it when time has passed."""
        now = time.monotonic()
        met = self._names.get(name)
        if met is not None and now - met[0] < FRESH_S:
            return met[1]
        token = self._rows.of_name(name, now_ms)
        if token is None:
            self._names.pop(name, None)
            return None
        if len(self._names) >= _MOST:
            self._names.clear()
        self._names[name] = now, token
        return token

    def _note(self, key: str, token: Token, now_ms: int) -> None:
        """Write down a use now and then; a call that reads is answered where that cannot be."""
        if token.used_ms is not None and now_ms - token.used_ms < _NOTED_MS:
            return
        if token.fault(now_ms) is not None:
            return
        noted, name = replace(token, used_ms=now_ms), key.removeprefix(_NAME)
        with self._looking:
            if self._met.get(key) is token:
                self._met[key] = noted
        met = self._names.get(name)
        if met is not None and met[1] is token:
            self._names[name] = met[0], noted
        try:
            self._rows.note_use(token.id, now_ms)
        except UNAVAILABLE as error:
            logger.warning("the use of a token was not written down: %s", error)
