"""User and Role: on whose behalf a call is made, and how far that goes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

from rdl.text_file import name_form


class Role(IntEnum):
    """What a user may do; each role may do what those below it may.

    Attributes
    ----------
    USER
        Acts for its own tenants, and sees of others only totals.
    OPERATOR
        Sees all tenants; acts for all; changes cluster, outages and dispatch policy.
    ADMIN
        Creates and revokes tokens in addition; may do whatever there is to do.
    """

    USER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """How files, answers and messages write it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class User:
    """On whose behalf a call is made.

    Attributes
    ----------
    name
        How the audit names it.
    role
        How far it goes.
    tenants
        Those a user acts for; operators and admins act for all.
    """

    name: str
    role: Role
    tenants: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Keep the tenants in the form in which names are compared."""
        object.__setattr__(self, "tenants", frozenset(map(name_form, self.tenants)))

    @property
    def sees_all(self) -> bool:
        """Whether details of every tenant are shown to it."""
        return self.role >= Role.OPERATOR

    @property
    def scope(self) -> frozenset[str] | None:
        """The tenants whose details are shown to it; None: those of all."""
        return None if self.sees_all else self.tenants

    @property
    def identity(self) -> str:
        """What is remembered or counted for it goes by: name, role and tenants, hashed.

        Names are given by admins and may be given again with other rights; that is another user.
        A new token with the same name and rights is the same user: retries continue under it.
        """
        return _identity_of(self)

    def acts_for(self, tenant: str) -> bool:
        """Return whether it may see details of a tenant, and change what belongs to it."""
        return self.sees_all or tenant in self.tenants


@lru_cache(maxsize=4096)
def _identity_of(user: User) -> str:
    rights = json.dumps([user.name, user.role.word, sorted(user.tenants)])
    return hashlib.sha256(rights.encode()).hexdigest()


#: Who calls a server that knows no tokens: anyone who is on its machine.
LOCAL_USER: Final = User("local", Role.ADMIN)

#: Who calls what everybody may call.
ANYBODY: Final = User("anybody", Role.USER)

#: Names by which the audit calls the server itself, and callers without a token.
RESERVED_NAMES: Final = frozenset({"server", LOCAL_USER.name, ANYBODY.name})
