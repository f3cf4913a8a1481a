"""User, Role and Actor: the user of a call, its rights, and the originator for the audit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

from rdl.text_file import name_form


class Role(IntEnum):
    """Rights of a user; each role includes those below it.

    Attributes
    ----------
    USER
        Acts for its own tenants, and sees only totals of others.
    OPERATOR
        Sees all tenants; acts for all; changes cluster, outages and dispatch policy.
    ADMIN
        Also creates and revokes tokens; has all rights.
    """

    USER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """The word in files, answers and messages."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class User:
    """The user of a call.

    Attributes
    ----------
    name
        Its name in the audit.
    role
        Its rights.
    tenants
        Tenants for which it acts; operators and admins act for all.
    """

    name: str
    role: Role
    tenants: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Normalise the tenants' names for comparison."""
        object.__setattr__(self, "tenants", frozenset(map(name_form, self.tenants)))

    @property
    def sees_all(self) -> bool:
        """Whether it may see details of all tenants."""
        return self.role >= Role.OPERATOR

    @property
    def scope(self) -> frozenset[str] | None:
        """The tenants whose details it may see; None for all."""
        return None if self.sees_all else self.tenants

    @property
    def identity(self) -> str:
        """Key of stored answers and counts of the user: a hash of name, role and tenants.

        Admins may give a name again with other rights; that is another user. A new token with the
        same name and rights is the same user, so that retries continue to work.
        """
        return _identity_of(self)

    def acts_for(self, tenant: str) -> bool:
        """Return whether it may see and change a tenant's objects."""
        return self.sees_all or tenant in self.tenants


@lru_cache(maxsize=4096)
def _identity_of(user: User) -> str:
    rights = json.dumps([user.name, user.role.word, sorted(user.tenants)])
    return hashlib.sha256(rights.encode()).hexdigest()


#: User of calls to a server without tokens, which only accepts local callers.
LOCAL_USER: Final = User("local", Role.ADMIN)

#: User of calls that need no authentication.
ANYBODY: Final = User("anybody", Role.USER)

#: Names by which the audit calls the server itself, and callers without a token.
RESERVED_NAMES: Final = frozenset({"server", LOCAL_USER.name, ANYBODY.name})


@dataclass(frozen=True, slots=True)
class Actor:
    """Originator of a change.

    Attributes
    ----------
    user
        User on whose behalf it acts.
    address
        Its address; empty for actions of the server.
    call
        The call, such as ``POST /v1/reservations``; a word for the server itself.
    key
        Key of its token in a `TokenBook`; empty if none was required.
    """

    user: User
    address: str = ""
    call: str = ""
    key: str = ""


#: The server itself: its dispatcher, its adapter, its start.
SERVER: Final = Actor(User("server", Role.ADMIN), call="server")

_acting: Final[ContextVar[Actor]] = ContextVar("acting", default=SERVER)


def present_actor() -> Actor:
    """Return the actor of the call in this thread; the server if there is none."""
    return _acting.get()


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """Set `actor` as the present actor inside the context."""
    token = _acting.set(actor)
    try:
        yield
    finally:
        _acting.reset(token)
