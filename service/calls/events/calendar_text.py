"""Reservations as iCalendar (RFC 5545): one event an occurrence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from planner.reservations.reservation import Reservation
from planner.reservations.state import State
from rdl.time_grid import TimeGrid

#: Longest line in octets, without its end (RFC 5545, 3.1).
_LINE: Final = 75

_STATUS: Final = {
    State.ACCEPTED: "CONFIRMED",
    State.ACTIVE: "CONFIRMED",
    State.COMPLETED: "CONFIRMED",
    State.DEGRADED: "TENTATIVE",
    State.CANCELLED: "CANCELLED",
    State.FAILED: "CANCELLED",
}

#: First and last step of an occurrence, half-open, and the most bundles it holds at once.
Span = tuple[int, int, int]


def calendar_text(name: str, reservations: Iterable[Reservation], grid: TimeGrid) -> bytes:
    """Return a calendar of reservations, in their order."""
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Agenda//Reservations//EN",
        "CALSCALE:GREGORIAN",
        "METHOD:PUBLISH",
        f"X-WR-CALNAME:{_escape(name)}",
    ]
    for one in reservations:
        for number, span in enumerate(spans_of(one)):
            lines += _event(one, number, span, grid)
    lines.append("END:VCALENDAR")
    return b"".join(_fold(line) for line in lines)


def spans_of(reservation: Reservation) -> list[Span]:
    """Return the span of every occurrence; what was given back counts as held."""
    found: dict[int, Span] = {}
    for atom in reservation.atoms:
        pieces = [(n, rows) for n, (_, rows) in enumerate(atom.occurrences())]
        if atom.released is not None:
            pieces.append((0, atom.released))
        for number, rows in pieces:
            for start, end, bundles in rows.tolist():
                known = found.get(number, (start, end, bundles))
                found[number] = (
                    min(known[0], start), max(known[1], end), max(known[2], bundles)
                )  # fmt: skip
    return [found[number] for number in sorted(found)]


def _event(one: Reservation, number: int, span: Span, grid: TimeGrid) -> Iterator[str]:
    start, end, bundles = span
    changed_ms = one.history[-1].at_ms if one.history else one.submitted_ms
    occurrence = f".{number}" if number else ""
    yield "BEGIN:VEVENT"
    yield f"UID:{_escape(one.id)}{occurrence}@agenda"
    yield f"DTSTAMP:{_utc(grid.instant_at(changed_ms))}"
    yield f"SEQUENCE:{one.revision}"
    yield f"DTSTART:{_utc(grid.instant_at(grid.ms(start)))}"
    yield f"DTEND:{_utc(grid.instant_at(grid.ms(end)))}"
    yield f"SUMMARY:{_escape(f'{one.id} ({one.state.value})')}"
    text = f"{one.expression}\ntenant {one.tenant}, queue {one.queue}, up to {bundles} at once"
    yield f"DESCRIPTION:{_escape(text)}"
    yield f"STATUS:{_STATUS[one.state]}"
    yield "TRANSP:TRANSPARENT"
    yield "END:VEVENT"


def _utc(at: datetime) -> str:
    return at.strftime("%Y%m%dT%H%M%SZ")


def _escape(text: str) -> str:
    """Return a text value (RFC 5545, 3.3.11)."""
    for plain, written in (("\\", "\\\\"), (";", "\\;"), (",", "\\,"), ("\r\n", "\n")):
        text = text.replace(plain, written)
    return text.replace("\n", "\\n").replace("\r", "")


def _fold(line: str) -> bytes:
    """Return a line with its end, cut where it is too long, never within a character."""
    raw = line.encode()
    pieces: list[bytes] = []
    while raw:
        end = _LINE - bool(pieces)
        while end < len(raw) and raw[end] & 0xC0 == 0x80:
            end -= 1
        pieces.append(raw[:end])
        raw = raw[end:]
    return b"\r\n ".join(pieces) + b"\r\n"
