"""PlainRequest: gunicorn's request without what this service does itself, and its settings as data.

Gunicorn asks of each request whether its peer may name another scheme or path, by an address that
it reads again, and looks each setting up by a method. This service believes no such header: whom a
proxy names is for `service.http.gate` to judge.
"""

from __future__ import annotations

from typing import Any

from gunicorn.http.message import Request


class PlainRequest(Request):  # type: ignore[misc]
    """A request of HTTP/1.1 in which no peer may set a scheme or a path by headers."""

    def _peer_is_trusted_proxy(self) -> bool:
        return False


def fix_settings(settings: Any) -> None:
    """Keep the values of gunicorn's settings as plain attributes; they change no more."""
    settings.__dict__.update({name: one.get() for name, one in settings.settings.items()})
