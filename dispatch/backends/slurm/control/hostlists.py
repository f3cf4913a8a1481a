"""Slurm's lists of nodes: ``n[1-3,7],login`` is n1, n2, n3, n7 and login."""

from __future__ import annotations

import re
from collections.abc import Iterator

_PART = re.compile(r"((?:[^,\[\]]|\[[^\]]*\])+)(?:,|$)")
_RANGE = re.compile(r"\[([^\]]*)\]")


def expand_hostlist(text: str) -> tuple[str, ...]:
    """Return the names of a list in its order; none for an empty one."""
    return tuple(name for part in _PART.findall(text) for name in _expand(part))


def _expand(part: str) -> Iterator[str]:
    found = _RANGE.search(part)
    if found is None:
        yield part
        return
    for one in found[1].split(","):
        first, _, last = one.partition("-")
        for number in range(int(first), int(last or first) + 1):
            middle = str(number).zfill(len(first))
            yield from _expand(part[: found.start()] + middle + part[found.end() :])
