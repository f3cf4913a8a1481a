"""Parsing of amounts and times in Slurm's output."""

from __future__ import annotations

import re
from math import ceil
from typing import Final

_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
#: Tasks of an array, such as ``0-7:2``.
_TASKS: Final = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_TIME: Final = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)|(\d+)")


def mebibytes(text: str) -> int:
    """Return ``1.50G`` or ``400`` in MiB, rounded up; 0 if it is not an amount."""
    found = _AMOUNT.fullmatch(text)
    if found is None:
        return 0
    return ceil(float(found[1]) * 1024.0 ** ("KMGTP".index(found[2] or "M") - 1))


def tres_of(text: str) -> dict[str, int]:
    """Return ``cpu=40,mem=10G,gres/gpu=4`` as amounts by name, memory in MiB."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name == "mem":
            found[name] = mebibytes(value)
        elif value.isdecimal():
            found[name] = int(value)
    return found


def counts_of(text: str) -> tuple[tuple[str, int], ...]:
    """Return ``matlab:2,ansys`` as names and counts; a missing count is 1."""
    parts = (part.partition(":") for part in text.split(",") if part)
    return tuple((name, int(count or 1)) for name, _, count in parts if (count or "1").isdecimal())


def tasks_of(text: str) -> int:
    """Return how many tasks ``0-7:2,9%4`` has; 0 if the list is incomplete."""
    count = 0
    for part in text.partition("%")[0].split(","):
        found = _TASKS.fullmatch(part)
        if found is None:
            return 0
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        count += (last - first) // step + 1
    return count


def seconds_of(text: str) -> int | None:
    """Return ``1-00:00:00``, ``01:30:00``, ``30:00`` or minutes in s; None for no such time."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds, whole = (int(one or 0) for one in found.groups())
    return 86_400 * days + 3600 * hours + 60 * (minutes + whole) + seconds
