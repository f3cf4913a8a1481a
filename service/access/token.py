"""Token: the right to call a server as someone, which a bearer shows by a secret."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Final

from service.access.user import RESERVED_NAMES, Role, User

#: How secrets begin, so that a text is seen to be one wherever it turns up.
PREFIX: Final = "agenda_"

#: Bytes of chance in a secret.
_BYTES: Final = 32


def new_secret() -> str:
    """Return a secret that no one can guess."""
    return PREFIX + secrets.token_urlsafe(_BYTES)


def hash_of(secret: str) -> str:
    """Return what is kept of a secret, 64 hexadecimal digits.

    One round of SHA-256 is enough. Slow and salted hashes are for passwords, which can be tried one
    after the other; a secret has 256 bits of chance, and no two are the same. A hash is found
    through an index, not compared byte by byte: how long that takes tells about hashes, and no one
    can make a secret for a hash.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Token:
    """What a server keeps of a token; times are Unix ms.

    Attributes
    ----------
    id
        What it is called in lists; no secret.
    user
        On whose behalf its bearer calls.
    created_ms, end_ms
        From when and until when it is good; None: for ever.
    used_ms
        When it was used last, to some minutes; None: never.
    revoked_ms
        When it was revoked; None: it was not.
    """

    id: str
    user: User
    created_ms: int
    end_ms: int | None = None
    used_ms: int | None = None
    revoked_ms: int | None = None

    def fault(self, now_ms: int) -> str | None:
        """Return why it is not good now, or None."""
        if self.revoked_ms is not None:
            return "the token was revoked"
        if self.end_ms is not None and self.end_ms <= now_ms:
            return "the token has ended"
        return None


def name_fault(name: str) -> str | None:
    """Return why no user can have a name, or None."""
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
