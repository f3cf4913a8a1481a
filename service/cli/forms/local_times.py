"""Times in tables: by the clock of one zone, which a line above says, or each with its offset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rdl.local_time import UTC_ZONE


def common_zone(entries: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the zone in which all entries are read, or None where they differ.

    An entry says its `zone`: that of its request, else the cluster's; without one it is UTC.
    """
    zones = {entry.get("zone", UTC_ZONE) for entry in entries}
    return next(iter(zones or {UTC_ZONE})) if len(zones) < 2 else None


def zone_line(zone: str | None) -> str:
    """Return the line that says how times are to be read."""
    return "times with their offset from UTC" if zone is None else f"times in {zone}"


def local_text(
    instant: str, seconds: float = 0, zone: str = UTC_ZONE, *, with_offset: bool = False
) -> str:
    """Return an RFC 3339 instant, so many seconds later, by the clock of a zone.

    ``2026-11-23 18:12``, with seconds where they are not 0, and ``+01:00`` if the offset is wanted.
    """
    at = datetime.fromisoformat(instant) + timedelta(milliseconds=round(1000 * seconds))
    local = at.astimezone(_zone(zone))
    parts = local.strftime("%Y-%m-%d %H:%M")
    if local.second or local.microsecond:
        parts += local.strftime(":%S")
    if local.microsecond:
        parts += f".{local.microsecond // 1000:03d}"
    offset = local.strftime("%z")
    return f"{parts} {offset[:3]}:{offset[3:]}" if with_offset else parts


def local_rows(
    columns: Sequence[str], rows: Iterable[Sequence[object]], names: Iterable[str], zone: str
) -> list[list[object]]:
    """Return rows of a table with the RFC 3339 instants of some columns by the clock of a zone."""
    places = {columns.index(name) for name in names}
    return [
        [
            local_text(str(cell), 0, zone) if place in places and cell else cell
            for place, cell in enumerate(row)
        ]
        for row in rows
    ]


def _zone(name: str) -> ZoneInfo:
    """Return a zone; UTC where this machine does not know the name that a server says."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo(UTC_ZONE)
