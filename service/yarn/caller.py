"""YarnCaller: the user and the tenant of a YARN call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from service.access.user import LOCAL_USER, User
from service.yarn.faults import NO_USER, YarnFault

#: The user of YARN's web pages if no user is logged in.
_STATIC_USER: Final = "dr.who"

_LONGEST: Final = 128


@dataclass(frozen=True, slots=True)
class YarnCaller:
    """The caller of a YARN call.

    Attributes
    ----------
    name
        The user's name in lists.
    tenant
        The tenant of the Plan for the user's reservations.
    user
        The user of the server.
    """

    name: str
    tenant: str
    user: User

    def require(self, tenant: str, name: str, verb: str) -> None:
        """Refuse to change a reservation of another tenant.

        Raises
        ------
        YarnFault
            400, as YARN answers if its access lists refuse a call.
        """
        if not self.user.acts_for(tenant):
            raise YarnFault(f"User {self.name} does not have permission to {verb} {name}")


def caller_of(user: User, given: str | None) -> YarnCaller:
    """Return the caller.

    Parameters
    ----------
    user
        The user of the token; without tokens, any local user.
    given
        ``user.name`` of the query: the caller if there is no token.

    Raises
    ------
    YarnFault
        401 without a user; 403 for the user of YARN's pages if tokens are required.
    """
    if user == LOCAL_USER:
        if not given:
            raise YarnFault(NO_USER, 401)
        if len(given) > _LONGEST or not given.isprintable():
            raise YarnFault(f"user.name is not 1 to {_LONGEST} printable characters")
        return YarnCaller(given, given, user)
    if user.name == _STATIC_USER:
        raise YarnFault("The default static user cannot carry out this operation.", 403)
    if user.acts_for(user.name) or not user.tenants:
        return YarnCaller(user.name, user.name, user)
    return YarnCaller(user.name, min(user.tenants), user)
