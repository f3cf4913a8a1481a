"""Actor: the originator of the call in this thread, for the audit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from service.access.user import Role, User


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
