"""A zone for tests of times of day that ask a server which follows the real clock."""

from __future__ import annotations

from datetime import UTC, datetime


def evening_zone() -> str:
    """Return a zone where it is six in the evening now: what must end by six has a night left."""
    ahead = (18 - datetime.now(UTC).hour + 12) % 24 - 12
    return f"Etc/GMT{-ahead:+d}"  # signs are the other way round there
