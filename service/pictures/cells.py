"""How a value looks in a table, on a terminal and on a page."""

from __future__ import annotations

_LARGE = 1000


def cell_text(value: object) -> str:
    """Return one value as a table shows it; None is a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < _LARGE else f"{value:,.1f}"
    return str(value)
