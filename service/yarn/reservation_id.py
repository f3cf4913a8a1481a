"""YARN's ids: ``reservation_<start of the server, ms>_<counter, at least 4 digits>``."""

from __future__ import annotations

import re
from typing import Final

from service.yarn.faults import YarnFault, number_fault

_PREFIX: Final = "reservation_"
_LONG: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_LONGEST: Final = 2**63 - 1


def id_text(start_ms: int, counter: int) -> str:
    """Return an id in YARN's format."""
    return f"{_PREFIX}{start_ms}_{counter:04d}"


def read_id(text: object) -> str:
    """Return an id in YARN's canonical format.

    Raises
    ------
    YarnFault
        404 for another prefix or number of parts, as YARN's server answers; 400 for a part that is
        not a number.
    """
    shown = text if isinstance(text, str) else str(text)
    # Like Java's split, ignore empty parts at the end.
    parts = shown.rstrip("_").split("_")
    if not shown.startswith(_PREFIX) or len(parts) != 3:
        raise YarnFault(f"The specified reservation id is invalid: {shown[:200]}", 404)
    return id_text(_number(parts[1]), _number(parts[2]))


def _number(text: str) -> int:
    if not _LONG.fullmatch(text) or int(text) > _LONGEST:
        raise number_fault(text[:200])
    return int(text)
