"""PlainRequest: gunicorn's request without steps this service does not need; settings as data.

For each request gunicorn checks by the peer's address whether it may override scheme or path, and
reads each setting by a method. This service trusts no such header: `service.http.gate` handles
users given by a proxy.
"""

from __future__ import annotations

from typing import Any

from gunicorn.http.message import Request


class PlainRequest(Request):  # type: ignore[misc]
    """An HTTP/1.1 request in which no peer may set a scheme or a path by headers."""

    def _peer_is_trusted_proxy(self) -> bool:
        return False


def fix_settings(settings: Any) -> None:
    """Store the values of gunicorn's settings as plain attributes; they do not change any more."""
    settings.__dict__.update({name: one.get() for name, one in settings.settings.items()})
