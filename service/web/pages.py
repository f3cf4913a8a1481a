"""The pages: path, title and access of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from service.access.user import Role


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the browser.

    Attributes
    ----------
    name
        Name of its template (``templates/NAME.html``), its module (``static/pages/NAME.js``) and,
        if any, its style (``static/style/NAME.css``).
    paths
        Paths under which it is served, parts in braces; links use the first.
    title
        Title in links and the window.
    key
        Shortcut key after ``g``; empty for none.
    role
        Least role that sees its link; None for everyone. Its data is protected by the calls it
        makes.
    listed
        Whether it is in the links of every page.
    saves
        Whether it has the common buttons to save its data; some pages have their own.
    """

    name: str
    paths: tuple[str, ...]
    title: str
    key: str = ""
    role: Role | None = Role.USER
    listed: bool = True
    saves: bool = False


#: In the order of the links.
PAGES: Final = (
    Page("plan", ("/ui/",), "Plan", "p"),
    Page("reservation", ("/ui/reservations/{id}",), "Reservation", listed=False, saves=True),
    Page("ask", ("/ui/ask",), "New request", "a", saves=True),
    Page(
        "optimise",
        ("/ui/optimizations", "/ui/optimizations/{id}"),
        "Optimise",
        "o",
        Role.OPERATOR,
        saves=True,
    ),
    Page("compare", ("/ui/compare",), "Compare", "v", Role.OPERATOR, saves=True),
    Page("cluster", ("/ui/cluster",), "Cluster", "c"),
    Page("machines", ("/ui/machines",), "Machines", "m", saves=True),
    Page(
        "applications",
        ("/ui/applications", "/ui/applications/{id}"),
        "Applications",
        "w",
        saves=True,
    ),
    Page("pipelines", ("/ui/pipelines", "/ui/pipelines/{id}"), "Pipelines", "j", saves=True),
    Page("promises", ("/ui/promises",), "Promises", "k", saves=True),
    Page("report", ("/ui/report",), "Report", "r", saves=True),
    Page("audit", ("/ui/audit",), "Audit", "u", Role.OPERATOR),
    Page("sign-in", ("/ui/sign-in",), "Sign in", role=None, listed=False),
)
