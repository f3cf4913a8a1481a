"""Bodies that are as bad as can be: wide, deep, long, or wrong in many places."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any


def bad_values(size: int) -> dict[str, Any]:
    """Return values of about this many bytes each, by what is bad about them."""
    deep: Any = "x" * size
    for _ in range(150):
        deep = [deep]
    return {
        "members": {f"k{index}": 1 for index in range(size // 9)},
        "numbers": list(range(size // 5)),
        "empty objects": [{}] * (size // 3),
        "wrong objects": [{"a": 1}] * (size // 8),
        "objects of many members": [{f"k{index}": 1 for index in range(30)}] * (size // 240),
        "words": [f"x{index}" for index in range(size // 8)],
        "deep": deep,
        "long": "x" * size,
        "digits": "9" * size,
        "blanks": {"cpu": "1" + " " * size + "!"},
        "brackets": "(" * size,
        "unknown operators": "all(" + "alll(), " * (size // 8) + ")",
    }


def bad_bodies(base: Any, size: int, names: Iterable[str] = ()) -> Iterator[tuple[str, bytes]]:
    """Yield long bodies made of bad values, also instead of each member of a good one.

    Parameters
    ----------
    names
        Members that a body may have, apart from those of `base`.
    """
    for name, value in bad_values(size).items():
        bodies = {f"{name} as the body": value}
        if isinstance(base, dict):
            bodies |= {
                f"{name} at {key}": {**base, key: value} for key in dict.fromkeys([*base, *names])
            }
            bodies |= {f"{name} among": {**base, **value}} if isinstance(value, dict) else {}
        for what, body in bodies.items():
            raw = json.dumps(body, separators=(",", ":")).encode()
            if len(raw) > size / 2:
                yield what, raw
