"""Tokens on disk: a row each, found by the hash of the secret or by the name of the user."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from rdl.durations import rfc3339_text
from service.access.actor import present_actor
from service.access.token import Token, hash_of, new_secret
from service.access.user import Role, User
from service.clock import instant_of
from service.store.database.driver import Driver
from service.store.database.tables import tokens
from service.store.log.audit import AuditRow, write_audit

_COLUMNS: Final = "id, name, role, tenants, created_ms, end_ms, used_ms, revoked_ms"

_BY_HASH: Final = f"SELECT {_COLUMNS} FROM tokens WHERE hash = ?"

#: Of a name that are good at a time, the newest first.
_BY_NAME: Final = (
    f"SELECT {_COLUMNS} FROM tokens WHERE name = ? AND revoked_ms IS NULL "
    "AND (end_ms IS NULL OR end_ms > ?) ORDER BY created_ms DESC, id"
)

#: Differs where a token was made or revoked since, whoever did it.
_STAMP: Final = "SELECT COUNT(*), COUNT(revoked_ms), MAX(created_ms), MAX(revoked_ms) FROM tokens"


class TokenRows:
    """The tokens of one database."""

    def __init__(self, engine: sa.Engine, driver: Driver) -> None:
        self._engine = engine
        self._driver = driver

    def create(self, user: User, end_ms: int | None, now_ms: int) -> tuple[Token, str]:
        """Keep a new token; return it, and its secret, which nobody can ask for again.

        Parameters
        ----------
        end_ms, now_ms
            Until when it is good (None: for ever) and now, Unix ms.
        """
        secret = new_secret()
        token = Token(f"t-{os.urandom(6).hex()}", user, now_ms, end_ms)
        row = {
            "id": token.id,
            "hash": hash_of(secret),
            "name": user.name,
            "role": user.role.word,
            "tenants": json.dumps(sorted(user.tenants)),
            "created_ms": now_ms,
            "end_ms": end_ms,
        }
        rights = " ".join([user.name, user.role.word, *sorted(user.tenants)])
        with self._engine.begin() as connection:
            connection.execute(sa.insert(tokens).values(row))
            write_audit(
                connection,
                AuditRow(present_actor(), now_ms, "create_token", token.id, detail=rights),
            )
        return token, secret

    def of_hash(self, digest: str) -> Token | None:
        """Return the token whose secret has this hash, good or not.

        Raises
        ------
        UnavailableError
            If the database cannot be used now.
        """
        return self._one(_BY_HASH, (digest,))

    def of_name(self, name: str, now_ms: int) -> Token | None:
        """Return the newest token of a user that is good now.

        None also where good tokens of that name differ in role or tenants: the name alone does not
        say which of those users is meant.

        Raises
        ------
        UnavailableError
            If the database cannot be used now.
        """
        found = self._driver.rows(self._driver.statement(_BY_NAME), (name, now_ms))
        good = [_token_of(row) for row in found]
        return good[0] if len({token.user for token in good}) == 1 else None

    def stamp(self) -> tuple[int | None, ...]:
        """Return what tells the tokens there are now from those of another time.

        Raises
        ------
        UnavailableError
            If the database cannot be used now.
        """
        return tuple(self._driver.rows(self._driver.statement(_STAMP))[0])

    def all(self) -> list[Token]:
        """Return all tokens, oldest first."""
        text = f"SELECT {_COLUMNS} FROM tokens ORDER BY created_ms, id"
        return [_token_of(row) for row in self._driver.rows(self._driver.statement(text))]

    def revoke(self, id_: str, now_ms: int) -> Token | None:
        """Revoke a token and return it; None where there is none. One that is revoked stays so."""
        with self._engine.begin() as connection:
            revoked = connection.execute(
                sa.update(tokens)
                .where(tokens.c.id == id_, tokens.c.revoked_ms.is_(None))
                .values(revoked_ms=now_ms)
            )
            if revoked.rowcount:
                write_audit(connection, AuditRow(present_actor(), now_ms, "revoke_token", id_))
        return self._one(f"SELECT {_COLUMNS} FROM tokens WHERE id = ?", (id_,))

    def note_use(self, id_: str, now_ms: int) -> None:
        """Write down that a token is used now."""
        with self._engine.begin() as connection:
            connection.execute(sa.update(tokens).where(tokens.c.id == id_).values(used_ms=now_ms))

    def has_admin(self, now_ms: int) -> bool:
        """Return whether there is a token of an admin that is good now."""
        table = tokens.c
        good = sa.or_(table.end_ms.is_(None), table.end_ms > now_ms)
        query = sa.select(table.id).where(
            table.role == Role.ADMIN.word, table.revoked_ms.is_(None), good
        )
        with self._engine.connect().execution_options(agenda_read_only=True) as connection:
            return connection.execute(query.limit(1)).one_or_none() is not None

    def _one(self, text: str, parameters: Sequence[object]) -> Token | None:
        found = self._driver.rows(self._driver.statement(text), parameters)
        return _token_of(found[0]) if found else None


def _token_of(row: Sequence[Any]) -> Token:
    id_, name, role, tenants, created_ms, end_ms, used_ms, revoked_ms = row
    user = User(name, Role[role.upper()], frozenset(json.loads(tenants)))
    return Token(id_, user, created_ms, end_ms, used_ms, revoked_ms)


def shown_token(token: Token, now_ms: int) -> dict[str, Any]:
    """Return a token as lists show it."""
    return {
        "id": token.id,
        "name": token.user.name,
        "role": token.user.role.word,
        "tenants": sorted(token.user.tenants),
        "good": token.fault(now_ms) is None,
        "created_at": rfc3339_text(instant_of(token.created_ms)),
        "end_at": _text_of(token.end_ms),
        "used_at": _text_of(token.used_ms),
        "revoked_at": _text_of(token.revoked_ms),
    }


def _text_of(ms: int | None) -> str | None:
    return None if ms is None else rfc3339_text(instant_of(ms))
