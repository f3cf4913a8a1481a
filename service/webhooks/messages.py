"""Events as messages for people: for chats and mail gateways."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

#: Formats of a webhook: the whole event as JSON, a message for Slack and compatible chats, or one
#: line of text.
EVENT, SLACK, TEXT = FORMATS = ("event", "slack", "text")

#: Kind of an event -> what has happened to the reservation.
_HAPPENED: Final[Mapping[str, str]] = {
    "accepted": "was accepted",
    "refused": "was refused",
    "begun": "has begun",
    "ended": "has ended",
    "closed": "was closed by its owner",
    "cancelled": "was cancelled",
    "failed": "has failed",
    "degraded": "is degraded: it lost machines or time that it was promised",
    "missed": "missed a part of its time",
    "unused": "passed unused while its work waited",
    "stage_late": "is at risk: a stage of its job is late",
    "restored": "is fully restored",
    "regained": "is partly restored",
    "moved": "was moved",
    "relocated": "was moved to other machines",
    "optimized": "was moved by an optimisation",
    "renegotiated": "was renegotiated",
    "released": "released capacity",
    "extended": "has further runs",
    "hold_accepted": "was accepted from a hold",
    "work_waits": "has begun, but its job waits in Slurm",
    "work_runs_on": "is over, but its job still runs",
    "work_ended": "is over, and its job has ended",
    "archived": "went to the archive",
    "starting_soon": "begins soon",
    "started_late": "has begun, but its work does not run yet",
    "at_risk": "is at risk: its work has fewer machines than its entitlement",
}

#: Kinds whose message begins with a warning.
_WARNINGS: Final = frozenset(
    {
        "degraded",
        "failed",
        "missed",
        "unused",
        "stage_late",
        "started_late",
        "at_risk",
        "refused",
        "work_waits",
    }
)


def content_type(form: str) -> str:
    """Return the media type of a format."""
    return "text/plain; charset=utf-8" if form == TEXT else "application/json"


def formatted(body: bytes, form: str) -> bytes:
    """Convert an event in JSON to the format of a webhook."""
    if form == EVENT:
        return body
    message = message_of(msgspec.json.decode(body))
    if form == TEXT:
        return message.encode()
    # Slack's three escapes: names and reasons must not become links or mentions.
    escaped = message.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return msgspec.json.encode({"text": escaped})


def message_of(event: Mapping[str, Any]) -> str:
    """Return an event as one line: the reservation, the event, its time and reason."""
    kind, id_ = event["kind"], event.get("reservation")
    if id_ is None:
        if kind == "missed":
            return "Agenda: events were lost while the server was unavailable; read the Plan again"
        return "Agenda: this is a test of a webhook"
    happened = _HAPPENED.get(kind, kind)
    at = event.get("at_at")
    when = f" ({datetime.fromisoformat(at):%Y-%m-%d %H:%M %Z})" if at else ""
    why = event.get("reason") or event.get("detail") or ""
    warning = "Warning: " if kind in _WARNINGS else ""
    return f"{warning}reservation {id_} of tenant {event.get('tenant')} {happened}{when}" + (
        f": {why}" if why else ""
    )
