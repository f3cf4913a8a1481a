"""Actor: who makes the call that this thread works on; what the audit records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from service.access.user import Role, User


@dataclass(frozen=True, slots=True)
class Actor:
    """Who changes something, and how.

    Attributes
    ----------
    user
        On whose behalf.
    address
        From which address; empty if the server acts by itself.
    call
        The call that does it, ``POST /v1/reservations``; of the server itself a word.
    key
        Under which a `TokenBook` finds its token; empty if none was requested.
    """

    user: User
    address: str = ""
    call: str = ""
    key: str = ""


#: The server itself: its dispatcher, its adapter, its start.
SERVER: Final = Actor(User("server", Role.ADMIN), call="server")

_acting: Final[ContextVar[Actor]] = ContextVar("acting", default=SERVER)


def present_actor() -> Actor:
    """Return who makes the call that this thread works on; the server if there is none."""
    return _acting.get()


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """Let `actor` be the one who makes what is done inside."""
    token = _acting.set(actor)
    try:
        yield
    finally:
        _acting.reset(token)
