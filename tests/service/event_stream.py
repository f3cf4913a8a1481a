"""What a stream of events tells, read to its end."""

from __future__ import annotations

import json
from typing import Any

from tests.service.conftest import Service


def read_events(text: str) -> list[tuple[str | None, str, dict[str, Any]]]:
    """Return (id, kind, data) of each event of a stream."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "data" in lines:
            found.append((lines.get("id"), lines["event"], json.loads(lines["data"])))
    return found


def heard(service: Service, query: str = "", **headers: str) -> list[Any]:
    """Return what a stream of one second tells."""
    answer = service.client.get(f"/v1/events?wait=1{query}", headers=headers)
    assert (answer.status_code, answer.mimetype) == (200, "text/event-stream")
    return read_events(answer.get_data(as_text=True))
