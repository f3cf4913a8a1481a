"""Which server a request means, and which page sends it: what keeps other sites' pages out."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from service.config import is_loopback
from service.problems import ApiError, ProblemDocument, problem

#: Characters of a foreign Host that are shown.
_LONGEST_HOST: Final = 100


def is_own_host(names: tuple[str, ...], host: str) -> bool:
    """Return whether a Host is this machine's loopback or one of `names`, at whatever port."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) or name in (own.strip("[]").lower() for own in names)


def foreign_host(host: str) -> ProblemDocument:
    """Return the answer to a request that means another server.

    A page of somebody else may let its own name point to this machine; the browser then takes what
    this server answers for the page's own, unless the server looks at the name it is called by.
    """
    detail = f"this server does not answer as {host[:_LONGEST_HOST]!r}"
    fix = "ask 127.0.0.1, [::1] or localhost, or start the server with --name"
    return ProblemDocument(
        "foreign_host", detail, (ApiError(detail, "foreign_host", "Host", None, fix),)
    )


def refuse_foreign_page(origin: str | None) -> None:
    """Refuse a change that a browser sends for a page of somebody else.

    Whoever reaches this server may change the Plan, and a browser on this machine reaches it for
    any page it shows. Browsers name the page's origin with every change; other clients name none.

    Parameters
    ----------
    origin
        The header Origin, or None where there is none.

    Raises
    ------
    ApiProblemError
        ``foreign_origin``.
    """
    if origin is None:
        return
    try:
        own = is_loopback(urlsplit(origin).hostname or "")
    except ValueError:
        own = False
    if not own:
        error = ApiError("changes come from pages of this machine only", "foreign_origin", "Origin")
        raise problem("foreign_origin", f"a page of {origin!r} may change nothing here", [error])
