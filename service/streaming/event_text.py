"""Server-sent events as text (WHATWG HTML, 9.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

#: Content type of a stream.
MEDIA: Final = "text/event-stream"

#: Reconnection delay of clients, ms.
RETRY: Final = b"retry: 1000\n\n"

#: Heartbeat without news, so that both ends know that the other is alive.
HEARTBEAT: Final = b":\n\n"


def event_text(kind: str, body: Mapping[str, Any], id_: str | None = None) -> bytes:
    """Return one event; without an id, clients continue from the last one that had one."""
    head = b"" if id_ is None else b"id: " + id_.encode() + b"\n"
    return head + b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(body) + b"\n\n"
