"""What a user may see and do of a tenant's things, for calls that name one of them."""

from __future__ import annotations

from service.access.user import User
from service.problems import problem


def require_visible(user: User, tenant: str | None, what: str) -> None:
    """Refuse to show what belongs to a tenant that a user does not act for, or what is not there.

    Parameters
    ----------
    tenant
        Whose it is; None where there is no such thing.
    what
        How the answer names it, such as ``reservation 'a'``. Both cases are answered alike.

    Raises
    ------
    ApiProblemError
        ``not_found``.
    """
    if tenant is None or not user.acts_for(tenant):
        raise problem("not_found", f"there is no {what}")
