"""Differences between two documents, such as two descriptions of a cluster, as lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

#: Keys that identify an entry of a list, for comparing lists entry by entry.
_NAMES: Final = ("name", "id")


def difference(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Yield a line for each member of a JSON document that is added, removed or changed.

    ``+ policies team: {...}``, ``- prices: [...]``, ``machines plain.count: 10 -> 12``. Entries of
    lists are matched by name or id, if all have one.
    """
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            inner = f"{where}.{key}" if where else key
            yield from difference(before.get(key), after.get(key), inner)
    elif (old := _by_name(before)) is not None and (new := _by_name(after)) is not None:
        for name in dict.fromkeys((*old, *new)):
            yield from difference(old.get(name), new.get(name), f"{where} {name}")
    elif before is None:
        yield f"+ {where}: {_plain(after)}"
    elif after is None:
        yield f"- {where}: {_plain(before)}"
    else:
        yield f"{where}: {_plain(before)} -> {_plain(after)}"


def _by_name(value: Any) -> dict[str, Any] | None:
    """Return the entries of a list by name; None if they have none."""
    if value is None:
        return {}
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        return None
    for key in _NAMES:
        found = {str(one[key]): one for one in value if key in one}
        if len(found) == len(value):
            return found
    return None


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
