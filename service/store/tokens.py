"""Tokens in the database, by the hash of the secret or the name of the user; and their TokenBook.

A `TokenBook` caches the tokens that a process has used, so that a call seldom queries the database.
"""

from __future__ import annotations

import json
import logging
import os
import pwd
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa

from rdl.durations import rfc3339_text
from service.access.token import Token, hash_of, new_secret
from service.access.user import Role, User, present_actor
from service.clock import instant_of
from service.store.audit import AuditRow, write_audit
from service.store.engine import UNAVAILABLE, Driver, Statement
from service.store.schema import tokens

logger = logging.getLogger("agenda.service")

#: How long cached tokens count as current, seconds: a token revoked by any process is valid for no
#: longer than that. Then one query shows whether any of them has changed.
FRESH_S: Final = 1.0

#: Most cached tokens, and ms between two records of the use of one.
_MOST: Final = 10_000
_NOTED_MS: Final = 600_000


#: How keys of names begin, and of users of this host; those of secrets are their hashes.
_NAME: Final = "name "
_HOST_USER: Final = "user "

#: In the order of `_token_of`.
_COLUMNS: Final = (
    tokens.c.id, tokens.c.name, tokens.c.role, tokens.c.tenants,
    tokens.c.created_ms, tokens.c.end_ms, tokens.c.used_ms, tokens.c.revoked_ms,
)  # fmt: skip


def _is_good(now_ms: int | sa.BindParameter[int]) -> sa.ColumnElement[bool]:
    ends = sa.or_(tokens.c.end_ms.is_(None), tokens.c.end_ms > now_ms)
    return sa.and_(tokens.c.revoked_ms.is_(None), ends)


class TokenRows:
    """The tokens of one database."""

    def __init__(self, engine: sa.Engine, driver: Driver) -> None:
        self._engine = engine
        self._driver = driver
        table, select = tokens.c, sa.select(*_COLUMNS)
        named = (table.name == sa.bindparam("name"), _is_good(sa.bindparam("now_ms")))
        self._by_hash = driver.statement(select.where(table.hash == sa.bindparam("hash")))
        self._by_id = driver.statement(select.where(table.id == sa.bindparam("id")))
        #: Valid tokens of a name at a time, newest first.
        newest = (table.created_ms.desc(), table.id)
        self._by_name = driver.statement(select.where(*named).order_by(*newest))
        self._of_name = driver.statement(
            sa.select(table.id).where(table.name == sa.bindparam("name")).limit(1)
        )
        self._all = driver.statement(select.order_by(table.created_ms, table.id))
        #: Changes when any process creates or revokes a token.
        revoked, created = table.revoked_ms, table.created_ms
        counts = (
            sa.func.count(),
            sa.func.count(revoked),
            sa.func.max(created),
            sa.func.max(revoked),
        )
        self._stamp = driver.statement(sa.select(*counts).select_from(tokens))

    def create(self, user: User, end_ms: int | None, now_ms: int) -> tuple[Token, str]:
        """Store a new token; return it and its secret, which cannot be read again.

        Parameters
        ----------
        end_ms, now_ms
            End of its validity (None for no end) and now, Unix ms.
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
        """Return the token whose secret has this hash, valid or not.

        Raises
        ------
        UnavailableError
            If the database is unavailable.
        """
        return self._one(self._by_hash, hash=digest)

    def of_name(self, name: str, now_ms: int) -> Token | None:
        """Return the newest currently valid token of a user.

        None also if valid tokens of that name differ in role or tenants: the name alone does not
        identify one of those users.

        Raises
        ------
        UnavailableError
            If the database is unavailable.
        """
        found = self._driver.rows(self._by_name, name=name, now_ms=now_ms)
        good = [_token_of(row) for row in found]
        return good[0] if len({token.user for token in good}) == 1 else None

    def knows(self, name: str) -> bool:
        """Return whether a token was ever created for a user, valid or not.

        Raises
        ------
        UnavailableError
            If the database is unavailable.
        """
        return bool(self._driver.rows(self._of_name, name=name))

    def stamp(self) -> tuple[int | None, ...]:
        """Return a stamp that changes whenever the tokens change.

        Raises
        ------
        UnavailableError
            If the database is unavailable.
        """
        return tuple(self._driver.rows(self._stamp)[0])

    def all(self) -> list[Token]:
        """Return all tokens, oldest first."""
        return [_token_of(row) for row in self._driver.rows(self._all)]

    def revoke(self, id_: str, now_ms: int) -> Token | None:
        """Revoke a token and return it; None if there is none. Revoking twice has no effect."""
        with self._engine.begin() as connection:
            revoked = connection.execute(
                sa.update(tokens)
                .where(tokens.c.id == id_, tokens.c.revoked_ms.is_(None))
                .values(revoked_ms=now_ms)
            )
            if revoked.rowcount:
                write_audit(connection, AuditRow(present_actor(), now_ms, "revoke_token", id_))
        return self._one(self._by_id, id=id_)

    def note_use(self, id_: str, now_ms: int) -> None:
        """Record the use of a token now."""
        with self._engine.begin() as connection:
            connection.execute(sa.update(tokens).where(tokens.c.id == id_).values(used_ms=now_ms))

    def has_admin(self, now_ms: int) -> bool:
        """Return whether there is a currently valid token of an admin."""
        query = sa.select(tokens.c.id).where(tokens.c.role == Role.ADMIN.word, _is_good(now_ms))
        with self._engine.connect().execution_options(agenda_read_only=True) as connection:
            return connection.execute(query.limit(1)).one_or_none() is not None

    def _one(self, statement: Statement, **values: object) -> Token | None:
        found = self._driver.rows(statement, **values)
        return _token_of(found[0]) if found else None


def _token_of(row: Sequence[Any]) -> Token:
    id_, name, role, tenants, created_ms, end_ms, used_ms, revoked_ms = row
    user = User(name, Role[role.upper()], frozenset(json.loads(tenants)))
    return Token(id_, user, created_ms, end_ms, used_ms, revoked_ms)


def shown_token(token: Token, now_ms: int) -> dict[str, Any]:
    """Return a token in the form of lists."""
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


def key_of_secret(secret: str) -> str:
    """Return the key of a bearer's token."""
    return hash_of(secret)


def key_of_name(name: str) -> str:
    """Return the key of the newest valid token of a user."""
    return f"{_NAME}{name}"


def key_of_host_user(name: str) -> str:
    """Return the key of a user of this host, who needs no token."""
    return f"{_HOST_USER}{name}"


def _token_of_host_user(name: str, now_ms: int) -> Token | None:
    """Return a user of this host as a token that no database has; None if there is none."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return None
    return Token(key_of_host_user(name), User(name, Role.USER, frozenset({name})), now_ms)


class TokenBook:
    """Finds tokens; thread-safe.

    Unknown tokens are not cached: each guess costs an index lookup.
    """

    def __init__(self, rows: TokenRows) -> None:
        self._rows = rows
        self._met: dict[str, Token] = {}
        self._names: dict[str, tuple[float, Token]] = {}
        self._stamp: tuple[int | None, ...] = ()
        self._looked_s = -FRESH_S
        self._looking = threading.Lock()

    def of_key(self, key: str, now_ms: int, *, used: bool = True) -> Token | None:
        """Return the token of `key_of_secret`, `key_of_name` or `key_of_host_user`, or None.

        A user of this host for whose name no token was ever created acts for the tenant of its
        name. If its tokens are revoked, have ended or differ in rights, the result is None.

        Parameters
        ----------
        used
            Whether this is a use of it, which is recorded from time to time.

        Raises
        ------
        UnavailableError
            If the database is unavailable.
        """
        if key.startswith(_NAME):
            name = key.removeprefix(_NAME)
            token = self._named(name, now_ms)
        elif key.startswith(_HOST_USER):
            name = key.removeprefix(_HOST_USER)
            key, token = key_of_name(name), self._named(name, now_ms)
            if token is None:
                known = self._rows.knows(name)
                return None if known else _token_of_host_user(name, now_ms)
        else:
            token = self._shown(key)
        if used and token is not None:
            self._note(key, token, now_ms)
        return token

    def remembered(self, key: str) -> Token | None:
        """Return the cached token of an earlier bearer, or None."""
        return self._met.get(key)

    def maker_fault(self, key: str, tenant: str | None, now_ms: int) -> str | None:
        """Return why objects created with a token are no longer served, or None.

        Parameters
        ----------
        key
            Key of the token; empty if none was required.
        tenant
            Tenant of the objects; None for all tenants.

        Raises
        ------
        UnavailableError
            If the database is unavailable.
        """
        if not key:
            return None
        token = self.of_key(key, now_ms, used=False)
        if token is None:
            return "its creator no longer has a token"
        if (fault := token.fault(now_ms)) is not None:
            return f"its creator is no longer authorised: {fault}"
        allowed = token.user.sees_all if tenant is None else token.user.acts_for(tenant)
        return None if allowed else "its creator no longer acts for its tenant"

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
        """Cache a token that was read under a stamp, unless the stamp has changed since."""
        with self._looking:
            if seen == self._stamp:
                if len(self._met) >= _MOST:
                    self._met.clear()
                self._met[key] = token

    def _named(self, name: str, now_ms: int) -> Token | None:
        """Return the newest valid token of a user, which may change over time."""
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
        """Record a use from time to time; reads are answered even if that fails."""
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
            logger.warning("the use of a token was not recorded: %s", error)
