"""Token: authenticates a bearer as a user by a secret."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Final

from service.access.user import RESERVED_NAMES, Role, User

#: Prefix of secrets, so that they are recognised wherever they appear.
PREFIX: Final = "agenda_"

#: Random bytes in a secret.
_BYTES: Final = 32


def new_secret() -> str:
    """Return a new random secret."""
    return PREFIX + secrets.token_urlsafe(_BYTES)


def hash_of(secret: str) -> str:
    """Return the stored hash of a secret, 64 hexadecimal digits.

    One round of SHA-256 is enough. Slow and salted hashes are for passwords, which can be guessed;
    a secret has 256 random bits, and no two are the same. A hash is looked up through an index, not
    compared in constant time: the timing only reveals hashes, from which no secret can be derived.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Token:
    """Stored data of a token; times are Unix ms.

    Attributes
    ----------
    id
        Its id in lists; not secret.
    user
        User on whose behalf its bearer calls.
    created_ms, end_ms
        Start and end of its validity; None for no end.
    used_ms
        Time of the last use, accurate to some minutes; None for never.
    revoked_ms
        Time of revocation; None if it was not.
    """

    id: str
    user: User
    created_ms: int
    end_ms: int | None = None
    used_ms: int | None = None
    revoked_ms: int | None = None

    def fault(self, now_ms: int) -> str | None:
        """Return why it is not valid now, or None."""
        if self.revoked_ms is not None:
            return "the token was revoked"
        if self.end_ms is not None and self.end_ms <= now_ms:
            return "the token has ended"
        return None


def name_fault(name: str) -> str | None:
    """Return why a name is not allowed for users, or None."""
    if name.casefold() in RESERVED_NAMES:
        return f"the audit calls the server's own changes {name!r}: write another name"
    return None


def user_fault(role: Role, tenants: frozenset[str]) -> str | None:
    """Return why there can be no user of a role with these tenants, or None."""
    if role is Role.USER and not tenants:
        return "a user acts for its own tenants: name at least one"
    if role is not Role.USER and tenants:
        return f"an {role.word} acts for all tenants: name none"
    return None
