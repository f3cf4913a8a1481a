"""A server that asks for tokens, its users, and a call of each route."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from werkzeug.test import TestResponse

from service.access.user import Role, User
from service.http.route import Route
from tests.service.conftest import Open, Service

#: The table of docs/operating.md: method, path, least role, what of other tenants.
_PAGE = Path(__file__).parents[3] / "docs" / "operating.md"
ROWS = re.findall(
    r"^\| `([A-Z]+) (/\S*)` \| (anybody|user|operator|admin) \| ?(.*?) ?\|$",
    _PAGE.read_text(encoding="utf-8"),
    re.MULTILINE,
)

ATOM = "atom(<1 cpu>, 1, 1, 60, 60)"
APPLICATION = {
    "name": "workers",
    "components": [{"name": "worker", "count": 1, "core": True, "resources": {"cpu": 1}}],
}

#: Who walks: user of tenant ads, user of another tenant, operator, admin.
WALKERS = {
    "user": User("ann", Role.USER, frozenset({"ads"})),
    "other": User("olga", Role.USER, frozenset({"web"})),
    "operator": User("otto", Role.OPERATOR),
    "admin": User("ada", Role.ADMIN),
}


@dataclass(frozen=True, slots=True)
class Guarded:
    """A service on which every walker has a token."""

    service: Service
    secrets: dict[str, str]

    def call(
        self, walker: str | None, method: str, path: str, body: Any = None, **headers: str
    ) -> TestResponse:
        """Make a call as someone, or as no one."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if walker is not None:
            sent["Authorization"] = f"Bearer {self.secrets[walker]}"
        data = None if body is None else json.dumps(body)
        kind = None if body is None else "application/json"
        return self.service.client.open(
            path, method=method, data=data, content_type=kind, headers=sent
        )


def guarded(open_service: Open, **settings: Any) -> Guarded:
    """Return a service that asks for tokens."""
    service = open_service(auth="token", **settings)
    rows, now_ms = service.runtime.tokens, service.clock.now_ms()
    secrets = {name: rows.create(user, None, now_ms)[1] for name, user in WALKERS.items()}
    return Guarded(service, secrets)


def body_of(route: Route) -> Any:
    """Return a body that a route reads, for the user's tenant; None if it reads none."""
    if route.body is None:
        return None
    if route.name == "createWebhook":
        return {"url": "https://example.org/", "tenant": "ads"}
    if route.path.startswith("/v1/applications"):
        return {"application": APPLICATION, "tenant": "ads"}
    if route.name == "createPipeline":
        stages = {"load": {"command": "true"}}
        return {"rdl": f"load: {ATOM}", "tenant": "ads", "stages": stages}
    if route.name in ("createReservation", "createHold", "findOffers"):
        return {"rdl": ATOM, "tenant": "ads"}
    if route.name == "createReservations":
        return [{"rdl": ATOM, "tenant": "ads"}]
    if route.name in ("checkRdl", "replaceReservation"):
        return {"rdl": ATOM}
    return next(iter(route.body.examples.values()), {})
